"""The certified path, as a whole command, against LIBLINEAR in memory: passes a certified C, working set, time.

``svmsieve path SHARDS`` runs as a user runs it (a process of its own, start-up included, default rule and solver,
eps-path at tol 1e-4); only compiling is done before, by small paths. LIBLINEAR trains cold on every C of that path, on
one matrix in memory, with the loosest -e of a list that reaches the same relative gap; the gap of its w is judged with
the path's dual. After ``--seconds`` a data set no further C is begun: C are taken in such an order that those
compared by then are spread over the whole path, and stand for it. How many of how many they were is printed, and
``--json`` lists them. ``--every`` leaves out all but every so many from the beginning.

Times are compared over the C where LIBLINEAR arrives: ours are those steps' seconds, and all that the command took
besides its steps; theirs the training alone. Where LIBLINEAR does not arrive (its 300-sweep cap) its seconds are not
counted and neither are ours. With ``--stop`` it is not asked at a C above one where it did not arrive: such C count as
compared, without arriving.

With ``--rounds`` both take turns so many times: ours is the quickest command, theirs the quickest training at each C.
That is for paths of a few seconds, on machines whose speed changes from one to the next.

python -m tests.bench.path [--data a9a mushrooms ...] [--seconds 600] [--every 1] [--stop] [--c-max 1e4] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from liblinear.liblinearutil import parameter, problem, train

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.data.ingest.ingest import IngestSpec, Input
from pipeline.data.registry.synthetic import make
from pipeline.runs.run import StepView
from tests.bench.measure import verdict
from tests.conftest import DEVELOPMENT_DATA
from tests.watched import SVMSIEVE

NAMES = ["a9a", "mushrooms", "imdb50k_uni", "news20_raw_bi", "census_income_kdd", "nycflights13", "url-like"]
TOLERANCES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3)


def open_named(name: str, folder: Path) -> Dataset:
    """Return a development data set, or url-like at scale 0.1, as shards."""
    target = folder / name
    if name == "url-like":
        make(name, target, 0.1)
    else:
        found = next(
            DEVELOPMENT_DATA / f"{name}{suffix}"
            for suffix in (".npz", ".svm.gz")
            if (DEVELOPMENT_DATA / f"{name}{suffix}").exists()
        )
        pipeline.ingest([Input(str(found))], target, IngestSpec())
    return pipeline.open_dataset(target)


def load_compiled(folder: Path) -> None:
    """Have all compiled code loaded (the very first time: compiled) by a dense and a sparse small path."""
    pipeline.fit_path("breast_cancer", epsilon=0.01)
    make("url-like", folder, 0.0002)
    for solver in ("auto", "dcd", "newton"):
        pipeline.fit_path(folder, epsilon=0.3, c_max=1.0, solver=solver)


class Library:
    """LIBLINEAR on all rows in memory."""

    def __init__(self, data: Dataset) -> None:
        parts = [shard.load() for shard in data.shards]
        x = sp.vstack([sp.csr_matrix(part.csr(), dtype=np.float64) for part in parts], format="csr")
        self.y = np.concatenate([part.labels for part in parts]).astype(np.float64)
        self.x = sp.csr_matrix(x)
        self.problem = problem(self.y, self.x)
        self.enough: dict[float, int] = {}  # by C: which -e was

    def seconds(self, c: float, dual: float, tol: float) -> float:
        """Return the seconds of the loosest -e that reaches the gap, inf if none does."""
        below = max((known for known in self.enough if known <= c), default=None)  # a larger C needs a smaller -e
        first = 0 if below is None else max(0, self.enough[below] - 1)
        for k in range(first, len(TOLERANCES)):
            begin = time.perf_counter()
            model = train(self.problem, parameter(f"-s 3 -q -c {c!r} -e {TOLERANCES[k]}"))
            took = time.perf_counter() - begin
            w = np.array(model.w[: self.x.shape[1]]) * (1 if model.get_labels()[0] > 0 else -1)
            primal = float(w @ w) / 2 + c * float(np.maximum(0.0, 1.0 - self.y * (self.x @ w)).sum())
            if primal - dual <= tol * primal:
                self.enough[c] = k
                return took
        return math.inf


def command(data: Dataset, out: Path, options: argparse.Namespace) -> float:
    """Run the whole command; return its seconds. Bytecode is kept, as it is for users."""
    line = [*SVMSIEVE, "path", data.path, "--out", str(out), "--memory", "8GB", "--quiet"]
    begin = time.perf_counter()
    subprocess.run(
        [*line, "--tol", repr(options.tol), "--c-max", repr(options.c_max)],
        check=True,
        stdout=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )
    return time.perf_counter() - begin


def spread(count: int) -> list[int]:
    """Return 0 to count - 1 in such an order that the first few, however many, are spread over all: bits reversed."""
    bits = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda k: int(f"{k:0{bits}b}"[::-1], 2))


@dataclass
class Answers:
    """What a peer did at the C it was compared at: seconds, inf where it did not arrive or was not asked."""

    at: dict[float, float] = field(default_factory=dict)

    @property
    def arrived(self) -> dict[float, float]:
        return {c: seconds for c, seconds in self.at.items() if math.isfinite(seconds)}

    def ours(self, steps: Sequence[StepView]) -> float:
        """Return our seconds at the C where it arrives."""
        return sum(step.seconds["total"] for step in steps if step.c in self.arrived)

    def quickest(self, other: Answers) -> Answers:
        """Return the less of both at each C."""
        return Answers({c: min(seconds, other.at.get(c, math.inf)) for c, seconds in self.at.items()})


def ask(library: Library, steps: Sequence[StepView], tol: float, seconds: float, stop: bool) -> Answers:
    """Have LIBLINEAR train at the C of some steps, spread over them all, as long as there is time."""
    found, begin, failed = Answers(), time.perf_counter(), math.inf
    for step in (steps[k] for k in spread(len(steps))):
        if time.perf_counter() - begin >= seconds:
            break
        took = math.inf if stop and step.c > failed else library.seconds(step.c, step.dual, tol)
        found.at[step.c] = took
        failed = failed if math.isfinite(took) else min(failed, step.c)
    return found


def compare(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    data, total, found = open_named(name, folder), math.inf, Answers()
    library = Library(data)
    for k in range(options.rounds):
        out = folder / f"{name}-run-{k}"
        took = command(data, out, options)
        if took < total:
            total, run = took, pipeline.open_run(out)
        theirs = ask(library, run.steps[1 :: options.every], options.tol, options.seconds, options.stop)
        found = theirs.quickest(found)
    beside = total - sum(step.seconds["total"] for step in run.steps)
    steps = run.steps[1:]
    shares = [step.working_set / step.n_rows for step in steps]
    facts = {
        "steps": len(run.steps),
        "passes": float(np.mean([step.passes for step in steps])),
        "working set": float(np.mean(shares)),
        "screened": float(np.mean([1 - step.survivors / step.n_rows for step in steps])),
        "seconds": total,
        "beside": beside,
    }
    compared, arrived = len(found.at), len(found.arrived)
    each = len(steps) / max(1, compared)  # steps that a compared one stands for
    ratio = each * sum(found.arrived.values()) / (each * found.ours(steps) + beside) if arrived else math.nan
    facts |= {"of": len(steps), "compared": sorted(found.at), "arrived": arrived, "ratio": ratio}
    print(
        f"{name:<20}{facts['steps']:6d} steps {facts['passes']:6.2f} passes/C {facts['working set']:7.1%} solved for "
        f"{facts['screened']:7.1%} screened {total:8.1f} s, {beside:4.1f} beside steps   "
        f"compared at {compared} of {len(steps)} C, LIBLINEAR arrives at {arrived}, LIBLINEAR/ours {ratio:.2f}",
        flush=True,
    )
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=NAMES)
    parser.add_argument("--seconds", type=float, default=math.inf, help="for LIBLINEAR, a data set")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--c-max", type=float, default=1e4)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--stop", action="store_true", help="stop asking LIBLINEAR at the first C where it fails")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small"
        load_compiled(small)
        command(pipeline.open_dataset(small), Path(folder) / "small-run", options)  # so that bytecode is there
        for name in options.data:
            found[name] = compare(name, Path(folder), options)
    passes = max(facts["passes"] for facts in found.values())
    print(verdict("passes per certified C, worst", passes, 1.2, at_least=False))
    ratios = {name: facts["ratio"] for name, facts in found.items() if math.isfinite(facts["ratio"])}
    mean = math.exp(np.mean([math.log(ratio) for ratio in ratios.values()]))
    compared, of = sum(len(facts["compared"]) for facts in found.values()), sum(facts["of"] for facts in found.values())
    print(f"compared at {compared} of {of} C")
    print(verdict("LIBLINEAR's time over ours where it arrives, geometric mean", mean, 4.0))
    worst = min(ratios, key=ratios.__getitem__)
    print(verdict(f"the same, worst ({worst})", ratios[worst], 1.0))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
