"""``svmsieve tune`` against an exhaustive path: is the C as good, and in what part of the time?

A fifth of the rows is held out of everything. On the others, as whole commands with start-up: ``svmsieve tune`` (5
folds, its own grid, one model), and ``svmsieve path`` on the eps-path to ``--c-max`` with ``--cv 5`` (or with
``--against holdout``: ``--holdout 0.2``), a model at every C. Then all models are judged on the rows that were held
out. What counts is the accuracy of the tuned model beside the best that any of the path's models has there: the path is
given the C that turns out to be the best, which nobody could have known. The binomial noise of the difference is at
most sqrt(b)/n, b the rows on which the two disagree; ``within noise`` means within two of it.

python -m tests.bench.tune [--sets a9a ...] [--against cv|holdout] [--c-max 1e4] [--rows N]
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np

import pipeline
from tests.bench.many import Memory, arguments, command, open_memory
from tests.bench.measure import verdict
from tests.bench.path import load_compiled

SETS = ("a9a", "census_income_kdd", "imdb50k_uni", "url-like")
AGAINST = {"cv": ("--cv", 5), "holdout": ("--holdout", 0.2)}


def right(rows: Memory, step: pipeline.StepView) -> np.ndarray:
    """Tell which rows a model gets right; a score of 0 is negative."""
    return np.where(rows.x @ step.w > 0, 1.0, -1.0) == rows.y


def compare(name: str, folder: Path, options: argparse.Namespace) -> tuple[float, bool]:
    rows, judges = open_memory(name, options).split()
    print(f"{rows.said()}; {judges.n:,} rows held out of everything", flush=True)
    shards = rows.shards(folder / name)
    tuned, whole = folder / f"{name}-tuned", folder / f"{name}-path"
    seconds = command("tune", shards, "--out", tuned)
    exhaustive = command("path", shards, *AGAINST[options.against], "--c-max", options.c_max, "--out", whole)
    chosen, steps = pipeline.open_run(tuned).steps[0], pipeline.open_run(whole).steps
    found, marks = right(judges, chosen), [right(judges, step) for step in steps]
    top = max(range(len(marks)), key=lambda k: marks[k].mean())
    short = float(marks[top].mean() - found.mean())
    noise = math.sqrt(np.count_nonzero(marks[top] != found)) / judges.n
    best = f"best of {len(steps)} C, {steps[top].c:.4g}: {marks[top].mean():.4f}"
    print(f"  tuned C = {chosen.c:.4g}: {found.mean():.4f}; {best}; short of it by {short:.4f}, noise {noise:.4f}")
    print(f"  tune {seconds:.1f} s, path {exhaustive:.1f} s: {seconds / exhaustive:.3f} of it", flush=True)
    return seconds / exhaustive, short <= 2 * noise


def main() -> None:
    parser = arguments(__doc__, SETS)
    parser.add_argument("--against", choices=tuple(AGAINST), default="cv")
    parser.add_argument("--c-max", type=float, default=1e4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tune-") as folder:
        home = Path(folder)
        load_compiled(home / "small")
        command("tune", home / "small", "--c-max", 1, "--out", home / "small-run")
        found = {name: compare(name, home, options) for name in options.sets}
    for name, (share, is_good) in found.items():
        print(verdict(f"tune's time over the path's, {name}", share, 0.1, at_least=False))
        print(f"{name}: the tuned model is {'' if is_good else 'NOT '}within noise of the best")


if __name__ == "__main__":
    main()
