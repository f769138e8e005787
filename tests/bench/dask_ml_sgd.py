"""The certified SVM against dask-ml's out-of-core learner: how wrong is SGD?

``dask_ml.wrappers.Incremental`` over scikit-learn's SGDClassifier (hinge loss, l2) sees the rows block by block, with
penalty 1/(C n), which makes its objective ours divided by C n. After every epoch its objective P_C is computed over all
rows and held against our dual value D_C: (P - D)/P bounds how far above the optimum it is. It says nothing of this
itself. Our time is that of one certified C from scratch, to ``--tol``.

python -m tests.bench.dask_ml_sgd [--scale 0.05] [--c 10000] [--epochs 20] [--tol 1e-3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask_ml.wrappers import Incremental
from sklearn.linear_model import SGDClassifier

import pipeline
from pipeline.data.dataset import Dataset, Shard
from pipeline.data.registry.synthetic import make


def blocks(data: Dataset) -> tuple[da.Array, da.Array]:
    """Return the rows and labels as Dask arrays, a block a shard, read when they are needed."""

    def rows(shard: Shard) -> sp.csr_matrix:
        return sp.csr_matrix(shard.load().csr(), dtype=np.float64)

    def labels(shard: Shard) -> np.ndarray:
        return np.array(shard.load().labels)

    width, like = data.n_features, sp.csr_matrix((0, 0))
    x = [da.from_delayed(dask.delayed(rows)(s), (s.n_rows, width), np.float64, like) for s in data.shards]
    y = [da.from_delayed(dask.delayed(labels)(s), (s.n_rows,), np.int8) for s in data.shards]
    return da.concatenate(x), da.concatenate(y)


def primal(engine: pipeline.Engine, data: Dataset, w: np.ndarray, c: float) -> float:
    """Return P_C(w) over all rows."""
    f = pipeline.margins(engine, data, w)
    return float(w @ w) / 2 + c * float(np.maximum(0.0, 1.0 - f).sum())


def run() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--c", type=float, default=1e4, help="in multiples of C_min")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--tol", type=float, default=1e-3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, pipeline.Engine() as engine:
        make("url-like", Path(name) / "rows", options.scale)
        data = pipeline.open_dataset(Path(name) / "rows")
        pipeline.fit_path(data, grid=[options.c], grid_in_c_min=True, tol=0.5)  # loads compiled code
        begun = time.perf_counter()
        step = pipeline.fit_path(data, grid=[options.c], grid_in_c_min=True, tol=options.tol).steps[0]
        ours = time.perf_counter() - begun
        print(f"url-like at {options.scale}: {data.n_rows:,} rows, {data.n_features:,} features, C = {step.c:.4g}")
        print(f"svmsieve: {ours:.1f} s, certified within {step.relative_gap:.1e} of the optimum", flush=True)
        x, y = blocks(data)
        learner = SGDClassifier(alpha=1 / (step.c * data.n_rows), fit_intercept=False, random_state=0)
        sgd, spent = Incremental(learner, shuffle_blocks=False), 0.0
        for epoch in range(1, options.epochs + 1):
            begun = time.perf_counter()
            sgd.partial_fit(x, y, classes=[-1, 1])
            spent += time.perf_counter() - begun
            value = primal(engine, data, sgd.estimator_.coef_[0], step.c)
            if epoch in (1, 2, 5, 10) or epoch % 10 == 0:
                gap = (value - step.dual) / value
                print(f"dask-ml Incremental SGD, {epoch:3} epochs: {spent:.1f} s, at most {gap:.1e} above", flush=True)


if __name__ == "__main__":
    run()
