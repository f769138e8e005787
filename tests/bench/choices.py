"""How much a path depends on constants that are plain choices: each halved and doubled, all else as it is.

Over a few real data sets (eps-path, tol 1e-4): visits of dcd, passes and the share of rows solved for, as ratios to
those of the code as it is (geometric means). Counts, not times: they are the same on a busy machine. A constant whose
ratios are all near 1 might be anything thereabouts; one that is better at half or double is not yet chosen well.

python -m tests.bench.choices [--data mushrooms pcmac_asu a9a splice_scale] [--epsilon 3e-3] [--only THETA ...]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.maths import working_set
from pipeline.path import step
from pipeline.solve import auto, dcd
from pipeline.solve.dcd import Descent
from tests.bench.path import open_named

CHOICES: list[tuple[ModuleType, str]] = [
    *((working_set, name) for name in ("FIRST_BAND", "LEAST_THETA", "COSTLY", "CHEAP", "FURTHEST")),
    *((step, name) for name in ("SHARE_FOR_SOLVER",)),
    *((dcd, name) for name in ("FIRST_STEP", "FIRST_SCALING", "FEW_FREE", "LOOK_AGAIN", "LEAST_WORK", "FIRST_CAUTION")),
    *((auto, name) for name in ("FIRST_LOOK", "PROMISE", "LAST_LOOK")),
    *((auto, name) for name in ("FIRST_LOOK_AT_CG", "PROMISE_AT_CG", "LAST_LOOK_AT_CG", "SINGULAR", "UNDERSTATED")),
]


@contextmanager
def changed(module: ModuleType, name: str, factor: float) -> Iterator[None]:
    """Multiply a constant."""
    usual = getattr(module, name)
    setattr(module, name, type(usual)(usual * factor))
    try:
        yield
    finally:
        setattr(module, name, usual)


@contextmanager
def counted() -> Iterator[list[float]]:
    """Count what dcd visits, in nonzeros."""
    total, usual = [0.0], Descent.burst

    def burst(run: Descent, *arguments: float) -> tuple[float, bool]:
        before = run.work
        found = usual(run, *arguments)
        total[0] += run.work - before
        return found

    Descent.burst = burst  # type: ignore[method-assign]
    try:
        yield total
    finally:
        Descent.burst = usual  # type: ignore[method-assign]


def counts(data: Dataset, epsilon: float) -> np.ndarray:
    """Return visits, passes and the mean share of rows solved for, of one path."""
    with counted() as visits:
        run = pipeline.fit_path(data, epsilon=epsilon, tol=1e-4, c_max=1e4, scheduler="inline")
    steps = run.steps[1:]
    share = float(np.mean([one.working_set / one.n_rows for one in steps]))
    return np.array([visits[0], sum(one.passes for one in steps) / len(steps), share])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["mushrooms", "pcmac_asu", "a9a", "splice_scale"])
    parser.add_argument("--epsilon", type=float, default=3e-3)
    parser.add_argument("--only", nargs="+", default=[name for _, name in CHOICES])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sets = [open_named(name, Path(folder)) for name in options.data]
        usual = [counts(data, options.epsilon) for data in sets]
        print(f"{'constant':<20}{'value':>8}{'times':>7}{'visits':>9}{'passes':>9}{'solved for':>12}   worst visits")
        for module, name in CHOICES:
            for factor in (0.5, 2.0) if name in options.only else ():
                with changed(module, name, factor):
                    ratios = np.array([counts(data, options.epsilon) for data in sets]) / usual
                visits, passes, share = np.exp(np.log(ratios).mean(axis=0))
                value, worst = getattr(module, name), ratios[:, 0].max()
                print(
                    f"{name:<20}{value:>8g}{factor:>7g}{visits:>9.2f}{passes:>9.2f}{share:>12.2f}{worst:>15.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
