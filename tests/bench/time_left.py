"""What the time left would have been shown to be along finished eps-paths, replayed from their steps.

Of each run: the factor by which what was shown is off, either way, as a median over time; the end as it was shown over
the true one, medians of the first and of the last third of the time; and by how much what was shown rose above the
least that had been shown before. Times are scaled to an hour, so that short runs are judged as long ones are.
--cv and --tune are data sets: paths with five folds, and searches, are made of them and judged in the same way.

python -m tests.bench.time_left [RUN ...] [--cv DATA ...] [--tune DATA ...]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pipeline
from pipeline.events import Event, StepProgress
from pipeline.maths.eps_grid import usual_steps_left
from pipeline.progress import _ways
from pipeline.runs.run import Run
from pipeline.steady import Steady
from pipeline.time_left import SLOWER, TimeLeft

HOUR = 3600.0
MOMENTS, LAST = 200, 0.95  # what is said in the last seconds is no matter
LEAST = 0.02  # of the whole time: a rise above less is none
Heard = tuple[float, float, tuple[float | None, ...]]  # a moment, the share, what else is known of the way


def replayed(run: Run) -> list[Heard]:
    """Return what was heard of a run, from its steps."""
    steps, spec = run.steps, run.spec
    assert spec.grid is None, "of a grid everybody knows how many steps are left"
    moments = np.cumsum([step.seconds["total"] for step in steps])
    way = np.log([step.c for step in steps])
    shares = (way - way[0]) / (math.log(spec.c_max) - way[0])
    bounds = [math.log1p(step.n_upper) / math.log1p(step.n_rows) for step in steps]
    ways = [(bound, None, usual_steps_left(spec.epsilon, k)) for k, bound in enumerate(bounds)]
    return list(zip(moments.tolist(), shares.tolist(), ways, strict=True))


def listened(work: Callable[..., Any], data: str) -> list[Heard]:
    """Return what was heard while this was done."""
    heard: list[Heard] = []

    def listen(event: Event) -> None:
        if isinstance(event, StepProgress):
            heard.append((time.monotonic(), event.share, _ways(event)))

    work(data, cv=5, listen=listen)
    return heard


def shown(heard: list[Heard]) -> tuple[np.ndarray, np.ndarray]:
    """Return moments, and how long was shown to be left then."""
    moments = np.array([moment for moment, _, _ in heard])
    moments = (moments - moments[0]) * HOUR / (moments[-1] - moments[0])
    left = Steady(TimeLeft(SLOWER))
    found = [left.told(share, now, *way) for now, (_, share, way) in zip(moments.tolist(), heard, strict=True)]
    at = np.linspace(0, LAST * HOUR, MOMENTS + 1)[1:]
    then = np.array(found, float)[np.searchsorted(moments, at, side="right") - 1]
    known = np.isfinite(then)
    return at[known], then[known]


def judged(at: np.ndarray, left: np.ndarray) -> tuple[float, float, float, float]:
    """Return the median factor, the end as it is guessed early and late, and the rise."""
    off = np.abs(np.log(np.maximum(left, 1e-3 * HOUR) / (HOUR - at)))
    third, end = max(1, at.size // 3), (at + left) / HOUR
    counted = np.maximum(left, LEAST * HOUR)
    rise = float(np.max(counted / np.minimum.accumulate(counted)))
    return math.exp(float(np.median(off))), float(np.median(end[:third])), float(np.median(end[-third:])), rise


def main() -> None:
    """Do what the head of this file says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument("--cv", nargs="+", default=[], metavar="DATA")
    parser.add_argument("--tune", nargs="+", default=[], metavar="DATA")
    options = parser.parse_args()
    for path in options.runs:
        run = pipeline.open_run(path)
        assert isinstance(run, Run), "of several classes each has a run"
        _print(path.name, replayed(run))
    for data in options.cv:
        _print(f"{Path(data).name}, 5 folds", listened(pipeline.fit_path, data))
    for data in options.tune:
        _print(f"{Path(data).name}, tune", listened(pipeline.tune, data))


def _print(name: str, heard: list[Heard]) -> None:
    factor, early, late, rise = judged(*shown(heard))
    ends = f"end shown at {early:.2f}, later {late:.2f} of the true one"
    print(f"{name}: heard {len(heard)} times, median factor {factor:.2f}, {ends}, rises {rise:.1f} x", flush=True)


if __name__ == "__main__":
    main()
