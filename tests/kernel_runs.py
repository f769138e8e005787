"""Kernel runs made without the path: optima by LIBSVM, certificates from a dense Q in extended precision.

LIBSVM has a bias of its own, which is not regularised. Twice the rows, once as they are and once as -z_i, make it 0 at
the optimum by symmetry: SVC with C/2 on [[K, -K], [-K, K]] and labels [y, -y]; alpha is the sum of the halves.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.svm import SVC

from pipeline.data.dataset import Dataset
from pipeline.data.shards.digest import row_hashes
from pipeline.maths.score import best, scores
from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import open_run
from pipeline.runs.records import StepRecord
from pipeline.runs.run import Run
from pipeline.runs.writer import writing
from pipeline.spec import PathSpec
from pipeline.working.split import Split

LONG = np.longdouble
OUT = LONG(1e-13)  # what a stored bound is further out than the value itself: far more than extended precision loses


@dataclass(frozen=True)
class DenseKernel:
    """All rows of a data set, the bias column left out, with labels and effective costs; K in extended precision."""

    x: np.ndarray
    labels: np.ndarray
    costs: np.ndarray
    gamma: float
    bias: float

    @classmethod
    def of(cls, data: Dataset, spec: PathSpec) -> DenseKernel:
        rows = [shard.load() for shard in data.shards]
        x = np.concatenate([part.csr().toarray() for part in rows]).astype(np.float64)
        labels, costs = (np.concatenate([getattr(part, name) for part in rows]) for name in ("labels", "costs"))
        hashes = np.concatenate([row_hashes(part) for part in rows])
        unused = Split(spec).left_out(hashes, labels) if spec.holdout or spec.fold else np.zeros(labels.size, bool)
        return cls(x[:, :-1] if data.bias else x, labels, np.where(unused, 0.0, costs), spec.gamma or 0.0, data.bias)

    def values(self, other: np.ndarray | None = None) -> np.ndarray:
        """Return K(x_i, x'_j) for rows x' over the same features, by default these rows."""
        a, b = self.x.astype(LONG), (self.x if other is None else other).astype(LONG)
        far = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
        return np.exp(-LONG(self.gamma) * far) + LONG(self.bias) ** 2

    def margins(self, alpha: np.ndarray) -> np.ndarray:
        """Return f_i of all rows."""
        return self.labels * (self.values() @ (self.labels * alpha.astype(LONG)))

    def scores(self, alpha: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return the scores of other rows over the same features."""
        return (self.values(other).T @ (self.labels * alpha.astype(LONG))).astype(np.float64)

    def optimum(self, c: float) -> np.ndarray:
        """Return alpha at C, feasible, to LIBSVM's smallest tolerance."""
        used = np.flatnonzero(self.costs)
        k = self.values()[np.ix_(used, used)].astype(np.float64)
        y, weights = self.labels[used], self.costs[used]
        doubled = np.block([[k, -k], [-k, k]])
        svc = SVC(kernel="precomputed", C=c / 2, tol=1e-10, cache_size=100, max_iter=5_000_000)
        svc.fit(doubled, np.concatenate([y, -y]), np.concatenate([weights, weights]))
        halves = np.zeros(2 * used.size)
        halves[svc.support_] = np.abs(svc.dual_coef_[0])
        alpha = np.zeros(self.labels.size)
        alpha[used] = halves[: used.size] + halves[used.size :]
        u = c * self.costs
        alpha = np.where(alpha >= u * (1 - 1e-9), u, alpha)
        return np.where(alpha <= u * 1e-12, 0.0, alpha)

    def c_min(self) -> float:
        """Return 1/max (Q c)_i over the rows that are trained on."""
        return float(1 / self.margins(self.costs)[self.costs > 0].max())


def stored_run(folder: Path, data: Dataset, spec: PathSpec) -> Run:
    """Write a finished run with the optimum at every C of the grid, as the path would."""
    dense = DenseKernel.of(data, spec)
    c_min = dense.c_min()
    with writing(folder, spec, DataRecord.of(data), {"python": platform.python_version()}) as writer:
        writer.update(c_min=c_min, class_weights=(1.0, 1.0))
        before = c_min
        for c in sorted(spec.grid or ()):
            record, alpha, verdicts = step_of(dense, c, before)
            writer.append(record, np.zeros(data.n_features), alpha, verdicts, None)
            before = c
        writer.finish(best_step=best([step.scores for step in writer.steps], spec.select), peak_memory=0, seconds=1.0)
    return open_run(folder)


def step_of(dense: DenseKernel, c: float, before: float) -> tuple[StepRecord, np.ndarray, np.ndarray]:
    """Return what a step says of the optimum at C, its alpha, and true verdicts of half of the rows."""
    alpha, used = dense.optimum(c), dense.costs > 0
    f, u = dense.margins(alpha), c * dense.costs
    square = (alpha * f).sum()
    primal = square / 2 + LONG(c) * (dense.costs * np.maximum(0, 1 - f)).sum()
    dual = alpha.astype(LONG).sum() - square / 2
    high, low = float(primal * (1 + OUT)), float(dual * (1 - OUT))
    verdicts = np.full(alpha.size, KEEP, np.int8)
    verdicts[(f > 1.1) & (np.arange(alpha.size) % 2 == 0)] = ZERO
    verdicts[(f < 0.9) & (np.arange(alpha.size) % 2 == 0)] = UPPER
    verdicts[~used] = ZERO
    zero, upper = (int(np.count_nonzero((verdicts == verdict) & used)) for verdict in (ZERO, UPPER))
    held = np.flatnonzero(~used)
    record = StepRecord(
        c=c,
        c_ref=before,
        rule="it",
        solver="libsvm",
        n_rows=int(np.count_nonzero(used)),
        screened_zero=zero,
        screened_upper=upper,
        survivors=int(np.count_nonzero(used)) - zero - upper,
        working_set=0,
        rounds=1,
        passes=1.0,
        primal=high,
        dual=low,
        relative_gap=float(np.nextafter((high - low) / high, 1)),
        n_free=int(np.count_nonzero((alpha > 0) & (alpha < u))),
        n_upper=int(np.count_nonzero((alpha == u) & used)),
        drift=0.0,
        theta=0.1,
        error=None,
        scores=scores(f[held].astype(np.float64), dense.labels[held]) if held.size else None,
        seconds={"total": 1.0},
    )
    return record, alpha, verdicts
