"""The reduced problem: what is left to solve when screening has decided some rows.

ZERO rows are dropped; UPPER rows are folded into one vector v = sum u_i z_i. Over the n rows that are kept

    dual    D(alpha) = sum alpha - |w_alpha|^2/2,   w_alpha = v + sum alpha_i z_i,   0 <= alpha_i <= u_i
    primal  P(w)     = |w|^2/2 - v . w + sum u_i max(0, 1 - f_i)

With the folded rows' constant U = sum of their u_i, the full problem has D_full = D + U exactly, and

    P_full - D_full = (P - D) + sum_UPPER u_i max(0, f_i - 1) + sum_ZERO u_i max(0, 1 - f_i):

the gaps agree exactly as long as the decided rows are on the side they were decided to be. At w = w_alpha the gap is
a sum of one term a row, each >= 0: (u_i - alpha_i) max(0, 1 - f_i) + alpha_i max(0, f_i - 1).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import kernel
from pipeline.solve.sparse_rows import SparseRows

Matrix: TypeAlias = Any


@dataclass(frozen=True)
class ReducedProblem:
    """Rows ``z`` (sparse or dense), box ``u``, and w_alpha = ``known`` where alpha = ``at``; all are never changed.

    Where nothing is given ``at`` is 0, and what is known is v. From a known pair w_alpha follows by the rows whose
    alpha is another now, which are few; v itself would be a sum over all of them.
    """

    z: Matrix
    u: np.ndarray
    known: np.ndarray
    at: np.ndarray | None = None

    def __post_init__(self) -> None:
        if hasattr(self.z, "tocsr"):  # SciPy's
            object.__setattr__(self, "z", SparseRows.of(self.z))
        n, d = self.z.shape
        if self.u.shape != (n,) or self.known.shape != (d,):
            raise ValueError(f"{n} rows of {d} features need a box of {n} and a vector of {d} entries")
        if n and not (np.all(self.u >= 0) and np.all(np.isfinite(self.u))):
            raise ValueError("every u_i must be a finite number of at least 0")

    @cached_property
    def is_sparse(self) -> bool:
        """Whether the rows are a sparse matrix."""
        return isinstance(self.z, SparseRows)

    @cached_property
    def nnz(self) -> int:
        """Number of stored values."""
        return int(self.z.nnz) if self.is_sparse else int(np.prod(self.z.shape))

    @cached_property
    def row_length(self) -> float:
        """Stored values a row, on average."""
        return self.nnz / max(1, self.u.size)

    @cached_property
    def v(self) -> np.ndarray:
        """The folded vector."""
        return self.known if self.at is None else self.known + self._sum(-self.at)

    def feasible(self, alpha: np.ndarray | None) -> np.ndarray:
        """Return a copy of a start alpha, put into the box; zeros if there is none."""
        if alpha is None:
            return np.zeros(self.u.size)
        return np.clip(np.asarray(alpha, dtype=np.float64), 0.0, self.u)

    def combine(self, alpha: np.ndarray) -> np.ndarray:
        """Return w_alpha = v + sum alpha_i z_i."""
        return self.known + self._sum(self.moved(alpha))

    def moved(self, alpha: np.ndarray) -> np.ndarray:
        """Return how far alpha is from where w_alpha is known."""
        return alpha if self.at is None else alpha - self.at

    def _sum(self, alpha: np.ndarray) -> np.ndarray:
        """Return sum alpha_i z_i."""
        found: np.ndarray = self.z.combined(alpha) if self.is_sparse else self.z.T @ alpha
        return found

    def gap(self, w: np.ndarray, alpha: np.ndarray) -> float:
        """Return P(w) - D(alpha) for any w and any feasible alpha."""
        f = self.z.times(w) if self.is_sparse else self.z @ w
        w_alpha = self.combine(alpha)
        distance = w - w_alpha
        return float(distance @ distance) / 2 + float(gap_terms(f, alpha, self.u))


@kernel
def gap_terms(f, alpha, u):  # type: ignore[no-untyped-def]
    """Return sum of u_i max(0, 1 - f_i) - alpha_i (1 - f_i): the gap, but for |w - w_alpha|^2/2."""
    total = 0.0
    for i in range(f.size):
        slack = 1.0 - f[i]
        total += (u[i] - alpha[i]) * slack if slack > 0.0 else -alpha[i] * slack
    return total


@dataclass(frozen=True)
class Solution:
    """What a solver found: a feasible alpha, a primal point w, their gap on the reduced problem, and how it ended.

    ``outcome`` is "converged" (gap <= target), "limit" (sweeps, iterations or time ran out), "stalled" (rounding allows
    no more) or "failed" (numerical trouble); in every case the gap is that of (w, alpha) as returned.
    ``at_w_alpha`` says that w is v + sum alpha_i z_i, summed afresh.
    """

    alpha: np.ndarray
    w: np.ndarray
    gap: float
    outcome: str
    iterations: int
    solver: str
    at_w_alpha: bool = False

    @property
    def converged(self) -> bool:
        """Whether the target was reached."""
        return self.outcome == "converged"
