"""Reads of the data a certified C, and time: certificates that read what they need against ``--every-row``.

Both are whole commands (eps-path at tol 1e-4, default rule and solver, start-up included) on the same shards, one after
the other; only compiling is done before. ``passes`` of a step counts nonzeros that were read, of certificates in all
its rounds and of rows gathered for the solver, over those that there are; the first step is not counted.

python -m tests.bench.reads [--data a9a mushrooms ...] [--c-max 1e4]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.runs.run import Run
from tests.bench.measure import verdict
from tests.bench.path import load_compiled, open_named
from tests.watched import SVMSIEVE

TARGETS = {  # reads a certified C
    **dict.fromkeys(("a9a", "mushrooms", "census_income_kdd", "magic"), 0.5),
    **dict.fromkeys(("imdb50k_uni", "url-like"), 0.8),
}


def command(data: Dataset, out: Path, c_max: float, *more: str) -> tuple[float, Run]:
    """Run the whole command; return its seconds and the run. Bytecode is kept, as it is for users."""
    line = [*SVMSIEVE, "path", data.path, "--out", str(out), "--memory", "8GB", "--quiet", "--c-max", repr(c_max)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    subprocess.run([*line, *more], check=True, stdout=subprocess.DEVNULL, env=env)
    return time.perf_counter() - begin, pipeline.open_run(out)


def described(run: Run) -> tuple[float, str]:
    """Return the reads a certified C, and what else is to be said."""
    steps = run.steps[1:]
    reads = float(np.mean([step.passes for step in steps]))
    full, screened = (
        np.mean([step.read == 1.0 for step in steps]),
        np.mean([1 - step.survivors / step.n_rows for step in steps]),
    )
    gap, certify = max(step.relative_gap for step in run.steps), sum(step.seconds["certify"] for step in run.steps)
    return (
        reads,
        f"all rows at {full:.0%} of {len(steps)} C, {screened:.0%} screened, gap {gap:.1e}, certify {certify:.1f} s",
    )


def main() -> None:
    """Measure, and judge by the targets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=list(TARGETS))
    parser.add_argument("--c-max", type=float, default=1e4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        load_compiled(folder / "small")
        for more in ((), ("--every-row",)):
            command(pipeline.open_dataset(folder / "small"), folder / f"small-run{len(more)}", 1.0, *more)
        for name in options.data:
            data = open_named(name, folder)
            some, less = command(data, folder / f"{name}-some", options.c_max)
            every, all_rows = command(data, folder / f"{name}-every", options.c_max, "--every-row")
            (reads, about), (others, about_others) = described(less), described(all_rows)
            print(f"{name}: {reads:.2f} reads a C, {some:.1f} s ({about})")
            print(f"  --every-row: {others:.2f} reads a C, {every:.1f} s ({about_others}): {every / some:.2f} x")
            if name in TARGETS:
                print("  " + verdict("reads a certified C", reads, TARGETS[name], at_least=False), flush=True)


if __name__ == "__main__":
    main()
