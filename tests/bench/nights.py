"""Fourteen nights of a job on growing data: warm nights against training from scratch, every certificate verified.

50 files of 2 % of the rows are there at first. Every night 3 % new rows come and the oldest 2 % retire; one night has a
corrupt file beside the good one, one has no file, one is killed with SIGKILL while it trains and run again. After each
night all certificates of its run are verified on the data as they are, and the same C are trained from scratch, to the
same gap. Times are those of screening and training (intake and verification are the same for both).

python -m tests.bench.nights [--data url-like|census_income_kdd|a9a|...] [--scale 0.05] [--tol 1e-4]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.data.registry.synthetic import make
from pipeline.nightly.job import read_job
from pipeline.nightly.night import run_nightly
from pipeline.nightly.records import NightRecord
from pipeline.runs.directory import open_run
from pipeline.verify.verify import verify
from tests.bench.path import open_named

NIGHTS, BASE_FILES = 14, 50
CORRUPT, EMPTY, KILLED = 5, 8, 11
START = date(2026, 1, 1)
JOB = """\
inputs: incoming/*.npz
store: store
reading: {{features: {features}}}
window: {window}
holdout: 0.1
gate: accuracy >= yesterday - 0.02
train: {{tol: {tol}, memory: {memory}, epsilon: 0.01, c_max: {c_max}, around: 2}}
keep: {{runs: 3}}
"""


@dataclass(frozen=True)
class Night:
    """What a night was like: seconds of screening and training, and of the same training from scratch."""

    number: int
    status: str
    rows: int
    settled: float
    warm: float
    scratch: float
    verified: int


class Simulation:
    """A job whose files are cut from one matrix: row r of file k is never in another file."""

    def __init__(self, folder: Path, x: sp.csr_array, y: np.ndarray, tol: float, c_max: float, memory: str) -> None:
        self.folder, self.x, self.y = folder, x, y
        self.share = len(y) / (BASE_FILES * 2 + NIGHTS * 3)
        (folder / "incoming").mkdir(parents=True)
        settings = {"features": x.shape[1], "window": BASE_FILES, "tol": tol, "c_max": c_max, "memory": memory}
        (folder / "job.yaml").write_text(JOB.format(**settings))
        for k in range(BASE_FILES):
            self._write(START - timedelta(days=BASE_FILES - k), 2 * k, 2 * k + 2)

    def nights(self) -> Iterator[Night]:
        """Run the first night, then fourteen more, judged."""
        self._run(0)
        for number in range(1, NIGHTS + 1):
            if number != EMPTY:
                first = 2 * BASE_FILES + 3 * (number - 1)
                path = self._write(START + timedelta(days=number), first, first + 3)
            if number == CORRUPT:
                (path.parent / f"torn-{START + timedelta(days=number)}.npz").write_bytes(path.read_bytes()[:-1000])
            if number == KILLED:
                self._kill(number)
            yield self._judged(number, self._run(number))

    def _write(self, day: date, first: float, last: float) -> Path:
        rows = slice(round(first * self.share), round(last * self.share))
        part, path = sp.csr_array(self.x[rows]), self.folder / "incoming" / f"rows-{day}.npz"
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as stream:
            np.savez(stream, data=part.data, indices=part.indices, indptr=part.indptr, shape=part.shape, y=self.y[rows])
        temporary.rename(path)
        return path

    def _run(self, number: int) -> NightRecord:
        (line,) = run_nightly(read_job(self.folder / "job.yaml"), START + timedelta(days=number))
        return line

    def _kill(self, number: int) -> None:
        """Run the night in a process of its own and kill it as soon as it trains."""
        day = str(START + timedelta(days=number))
        words = [sys.executable, "-m", "tests.bench.nights", "--job", str(self.folder / "job.yaml"), day]
        process = subprocess.Popen(words)
        training = self.folder / "store" / "runs" / day / "run.json"
        while not training.exists() and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            raise SystemExit("the night was over before it could be killed")

    def _judged(self, number: int, line: NightRecord) -> Night:
        run, data = open_run(self.folder / "store" / "runs" / line.night), self.data()
        with pipeline.Engine() as engine:
            findings = verify(engine, run.path, data)
        wrong = [finding for finding in findings if not finding.holds]
        if wrong:
            raise SystemExit(f"night {number}: {wrong[0]}")
        begun = time.perf_counter()
        spec = run.spec
        settings = {"tol": spec.tol, "memory": spec.memory, "holdout": spec.holdout}
        again = pipeline.fit_path(data, grid=spec.grid, **settings)
        scratch = time.perf_counter() - begun
        for ours, theirs in zip(run.steps, again.steps, strict=True):
            if max(ours.dual, theirs.dual) > min(ours.primal, theirs.primal) * (1 + 1e-9):
                raise SystemExit(f"night {number}, C = {ours.c:g}: the two trainings contradict each other")
        spent = line.seconds["screen"] + line.seconds["train"]
        return Night(number, line.status, line.rows, line.settled, spent, scratch, len(findings))

    def data(self) -> Dataset:
        """The data as they are tonight."""
        return pipeline.open_dataset(self.folder / "store" / "shards")


def matrix(name: str, scale: float, folder: Path) -> tuple[sp.csr_array, np.ndarray]:
    """Return a development data set, or url-like at a scale, in one matrix; rows are shuffled with a fixed seed."""
    if name == "url-like":
        make(name, folder / name, scale)
        data = pipeline.open_dataset(folder / name)
    else:
        data = open_named(name, folder)
    parts = [shard.load() for shard in data.shards]
    x = sp.csr_array(sp.vstack([part.csr() for part in parts], format="csr"))
    order = np.random.default_rng(0).permutation(x.shape[0])
    return sp.csr_array(x[order]), np.concatenate([part.labels for part in parts])[order]


def shown(night: Night) -> str:
    """Return the line of a night."""
    ratio = night.scratch / night.warm
    return (
        f"{night.number:5}  {night.status:<12}{night.rows:>10,}{night.settled:9.1%}{night.warm:9.2f} s"
        f"{night.scratch:9.2f} s{ratio:8.1f}   {night.verified} verified"
    )


def run() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="url-like")
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--c-max", type=float, default=1.0)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--job", nargs=2, metavar=("JOB", "DAY"), help="only run this job as of a day")
    options = parser.parse_args()
    if options.job:
        run_nightly(read_job(options.job[0]), date.fromisoformat(options.job[1]))
        return
    with tempfile.TemporaryDirectory(prefix="nights-") as name:
        x, y = matrix(options.data, options.scale, Path(name))
        simulation = Simulation(Path(name) / "job", x, y, options.tol, options.c_max, options.memory)
        print(f"{options.data}: {x.shape[0]:,} rows, {x.shape[1]:,} features, {os.cpu_count()} cores")
        print("night  status            rows  settled     warm   from scratch   ratio", flush=True)
        nights = []
        for night in simulation.nights():
            nights.append(night)
            print(shown(night), flush=True)
    ratios = np.array([night.scratch / night.warm for night in nights])
    print(f"from scratch / warm: geometric mean {np.exp(np.log(ratios).mean()):.2f}, smallest {ratios.min():.2f}")
    print(f"settled before training: {min(n.settled for n in nights):.1%} to {max(n.settled for n in nights):.1%}")


if __name__ == "__main__":
    run()
