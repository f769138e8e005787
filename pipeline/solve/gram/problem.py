"""A kernel's reduced problem: n rows known by their Gram matrix alone, all others frozen and folded.

With Q_ij = z_i . z_j over the rows that are solved for, b_i = z_i . v of the folded rows' vector v, and a box u:

    dual     D(alpha) = sum alpha - alpha . Q alpha / 2 - alpha . b,    0 <= alpha_i <= u_i
    margins  f = Q alpha + b
    gap      sum_i (u_i - alpha_i) max(0, 1 - f_i) + alpha_i max(0, f_i - 1)

which is ``reduced``'s problem at w = w_alpha: the only w that a Gram matrix can speak of.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.solve.gram.kernels import Square, add_columns
from pipeline.solve.reduced import gap_terms

NUMBER = np.dtype(np.float64)


@dataclass(frozen=True)
class GramProblem:
    """Gram matrix ``q`` (symmetric, a corner of a larger one if need be), box ``u``, and the fold's margins ``b``.

    ``q`` is never changed, and never copied as a whole.
    """

    q: np.ndarray
    u: np.ndarray
    b: np.ndarray

    def __post_init__(self) -> None:
        n = self.u.size
        if self.q.shape != (n, n) or self.u.shape != (n,) or self.b.shape != (n,):
            raise ValueError(f"a box of {n} rows needs a Gram matrix of {n} by {n} and {n} margins of the fold")
        if any(array.dtype != NUMBER for array in (self.q, self.u, self.b)):
            raise ValueError("a Gram matrix, its box and its fold must be float64")
        if n and NUMBER.itemsize not in self.q.strides:
            raise ValueError("the rows or columns of a Gram matrix must lie in one piece")
        if not (np.all(self.u >= 0) and np.all(np.isfinite(self.u))):
            raise ValueError("every u_i must be a finite number of at least 0")

    @cached_property
    def square(self) -> Square:
        """Return Q as kernels take it: its numbers in one run, and how far a row is from the next."""
        n = self.u.size
        rows = self.q if self.q.strides[1:] == (NUMBER.itemsize,) else self.q.T
        apart = rows.strides[0] // NUMBER.itemsize if n > 1 else 1
        length = (n - 1) * apart + n if n else 0
        return np.lib.stride_tricks.as_strided(rows, (length,), (NUMBER.itemsize,), writeable=False), apart

    def feasible(self, alpha: np.ndarray | None) -> np.ndarray:
        """Return a copy of a start alpha, put into the box; zeros if there is none."""
        if alpha is None:
            return np.zeros(self.u.size)
        return np.clip(np.asarray(alpha, dtype=np.float64), 0.0, self.u)

    def margins(self, alpha: np.ndarray) -> np.ndarray:
        """Return f = Q alpha + b, summed afresh."""
        f = self.b.copy()
        rows = np.flatnonzero(alpha)
        add_columns(self.square, rows, alpha[rows], f)
        return f

    def gap(self, alpha: np.ndarray, f: np.ndarray) -> float:
        """Return the gap of a feasible alpha whose margins are f."""
        return float(gap_terms(f, alpha, self.u))


@dataclass(frozen=True)
class GramSolution:
    """What a solver found: a feasible alpha, its gap with margins summed afresh, and how it ended.

    ``outcome`` is "converged" (gap <= target), "limit" (rounds ran out), "stalled" (rounding allows no more) or
    "failed" (numerical trouble).
    """

    alpha: np.ndarray
    gap: float
    outcome: str
    iterations: int
    solver: str

    @property
    def converged(self) -> bool:
        """Whether the target was reached."""
        return self.outcome == "converged"
