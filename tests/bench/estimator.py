"""What a fit of arrays in memory takes, ``SieveSVC`` beside ``LinearSVC``, after import and first calls.

    python -m tests.bench.estimator [--fits 200]

Fits alternate, so that both see the same machine; of each the median and the quickest are printed, and the CPU time,
which others on the machine disturb least; then where the time of a fit goes, by layer. The data are scikit-learn's
breast cancer, 569 x 30, scaled.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from pipeline.estimators import SieveSVC
from tests.bench.measure import verdict

ALLOWED = 5.0  # milliseconds more than LinearSVC, in the median
LAYERS = (
    "estimators/svc.py:fit",
    "estimators/inputs.py:training_of",
    "data/in_memory.py:in_memory",
    "path/path.py:run_path",
    "path/path.py:_collect",
    "path/linear.py:start",
    "path/step.py:step",
    "path/linear.py:solve",
    "path/linear.py:certify",
    "estimators/fitted.py:_settle",
)


def measured(estimators: list[BaseEstimator], x: np.ndarray, y: np.ndarray, fits: int) -> np.ndarray:
    """Milliseconds of every fit, elapsed and of CPU, a row an estimator."""
    took = np.empty((2, len(estimators), fits))
    for estimator in estimators:
        estimator.fit(x, y)
    for k in range(fits):
        for row, estimator in enumerate(estimators):
            begun = time.perf_counter(), time.process_time()
            estimator.fit(x, y)
            ended = time.perf_counter(), time.process_time()
            took[:, row, k] = 1e3 * np.subtract(ended, begun)
    return took


def layers(estimator: BaseEstimator, x: np.ndarray, y: np.ndarray, fits: int) -> dict[str, float]:
    """Milliseconds a fit in each layer, what it calls included; a profiler makes all of it slower."""
    with cProfile.Profile() as profile:
        for _ in range(fits):
            estimator.fit(x, y)
    found = dict.fromkeys(LAYERS, 0.0)
    for (path, _, name), (*_, cumulative, _) in pstats.Stats(profile).stats.items():
        for layer in LAYERS:
            file, function = layer.split(":")
            if path.endswith(f"pipeline/{file}") and name == function:
                found[layer] += 1e3 * cumulative / fits
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=200)
    fits = parser.parse_args().fits
    x, y = load_breast_cancer(return_X_y=True)
    x = scale(x)
    ours, theirs = SieveSVC(), LinearSVC(loss="hinge")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        took = measured([ours, theirs], x, y, fits)
    found = {
        "median": np.median(took[0], axis=1),
        "quickest": took[0].min(axis=1),
        "median of CPU time": np.median(took[1], axis=1),
    }
    for what, (mine, other) in found.items():
        print(f"{what}: SieveSVC {mine:.2f} ms, LinearSVC {other:.2f} ms")
        print(verdict("  more, ms", mine - other, ALLOWED, at_least=False))
    print(f"relative gap {ours.relative_gap_:.1e}")
    for layer, spent in layers(ours, x, y, 50).items():
        print(f"  {layer:35s} {spent:6.2f} ms (profiled)")


if __name__ == "__main__":
    main()
