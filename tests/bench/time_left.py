"""What the time left would have been said to be along finished eps-paths, replayed from their steps.

Of each run: the factor by which what was said is off, either way, as a median over time; the guess of the end over the
true one, medians of the first and of the last third of the time; and by how much what was said to be left rose above
the least that had been said before. Times are scaled to an hour, so that short runs are judged as long ones are.

python -m tests.bench.time_left RUN [RUN ...]
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

import pipeline
from pipeline.maths.eps_grid import usual_steps_left
from pipeline.runs.directory import Run
from pipeline.time_left import TimeLeft

HOUR = 3600.0
MOMENTS, LAST = 200, 0.95  # what is said in the last seconds is no matter
LEAST = 0.02  # of the whole time: a rise above less is none


def said(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Return moments, and how long was said to be left then."""
    steps, spec = run.steps, run.spec
    assert spec.grid is None, "of a grid everybody knows how many steps are left"
    moments = np.cumsum([step.seconds["total"] for step in steps])
    moments = (moments - moments[0]) * HOUR / (moments[-1] - moments[0])
    way = np.log([step.c for step in steps])
    shares = (way - way[0]) / (math.log(spec.c_max) - way[0])
    left, found = TimeLeft(), []
    for k, (step, share, now) in enumerate(zip(steps, shares, moments, strict=True)):
        at_bound = math.log1p(step.n_upper) / math.log1p(step.n_rows)
        guess = left.told(float(share), float(now), at_bound, None, usual_steps_left(spec.epsilon, k))
        found.append(math.nan if guess is None else guess)
    at = np.linspace(0, LAST * HOUR, MOMENTS + 1)[1:]
    last = np.searchsorted(moments, at, side="right") - 1
    counted_down = np.maximum(np.array(found)[last] - (at - moments[last]), 0.0)
    known = np.isfinite(counted_down)
    return at[known], counted_down[known]


def judged(at: np.ndarray, left: np.ndarray) -> tuple[float, float, float, float]:
    """Return the median factor, the end as it is guessed early and late, and the rise."""
    off = np.abs(np.log(np.maximum(left, 1e-3 * HOUR) / (HOUR - at)))
    third, end = max(1, at.size // 3), (at + left) / HOUR
    rise = float(np.max(left / np.minimum.accumulate(np.maximum(left, LEAST * HOUR))))
    return math.exp(float(np.median(off))), float(np.median(end[:third])), float(np.median(end[-third:])), rise


def main() -> None:
    """Do what the head of this file says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    for path in parser.parse_args().runs:
        run = pipeline.open_run(path)
        assert isinstance(run, Run), "of several classes each has a run"
        factor, early, late, rise = judged(*said(run))
        ends = f"end guessed at {early:.2f}, later {late:.2f} of the true one"
        print(f"{path.name}: {len(run.steps)} steps, median factor {factor:.2f}, {ends}, rises {rise:.1f} x")


if __name__ == "__main__":
    main()
