"""The linear systems of the Newton solver: (I + Z_J^T diag(sigma) Z_J) x = right over a few rows J.

Solved by Cholesky in the features, or in the rows of J (Woodbury), whichever is cheaper, and by conjugate gradients
when both are many (``newton_cg``). Sparse rows are multiplied in place, dense ones by BLAS.
"""

from __future__ import annotations

import numpy as np

from pipeline.blas import dposv
from pipeline.solve.dcd_kernel import add_rows
from pipeline.solve.newton_cg import conjugate_gradients
from pipeline.solve.newton_kernel import gram_of_features, gram_of_rows, write_margins
from pipeline.solve.reduced import ReducedProblem
from pipeline.solve.rows import rows_of

DIRECT_SIZE = 2500  # a plain choice: a matrix of 50 MB, and half a second of Cholesky's
FLOP = 0.03  # what a step of Cholesky's costs, in additions to a sparse product; measured (tests.bench.calibrate)


class Systems:
    """Products with Z and its transpose, and the systems, for one reduced problem."""

    def __init__(self, problem: ReducedProblem) -> None:
        self.problem, self.z = problem, problem.z
        self.rows = rows_of(problem)

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Return Z w."""
        if not self.problem.is_sparse:
            return np.asarray(self.z @ w, dtype=np.float64)
        out = np.empty(self.z.shape[0])
        write_margins(self.rows, w, out)
        return out

    def combine(self, alpha: np.ndarray) -> np.ndarray:
        """Return Z^T alpha."""
        if not self.problem.is_sparse:
            return np.asarray(self.z.T @ alpha, dtype=np.float64)
        out = np.zeros(self.z.shape[1])
        add_rows(self.rows, alpha, out)
        return out

    def solve(self, free: np.ndarray, sigma: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Solve over the rows ``free``, roughly where that takes conjugate gradients; nan if it cannot be done."""
        if free.size == 0:
            return right
        is_large = min(free.size, right.size) > DIRECT_SIZE
        if self.problem.is_sparse and not is_large:
            return self._solve_sparse(free, sigma, right)
        if is_large:
            return conjugate_gradients(self.rows, free, sigma, right)
        scaled = self.z[free] * np.sqrt(sigma[free])[:, None]
        if free.size < right.size:
            return right - scaled.T @ _solve_positive(_one_more(scaled @ scaled.T), scaled @ right)
        return _solve_positive(_one_more(scaled.T @ scaled), right)

    def _solve_sparse(self, free: np.ndarray, sigma: np.ndarray, right: np.ndarray) -> np.ndarray:
        if right.size <= DIRECT_SIZE and features_are_cheaper(free.size, right.size, self.problem.row_length):
            square = np.empty((right.size, right.size))
            gram_of_features(self.rows, free, sigma, square)
            return _solve_positive(square, right)
        square = np.empty((free.size, free.size))
        gram_of_rows(self.rows, free, sigma, np.zeros(right.size), square)
        root = np.sqrt(sigma[free])
        weights = np.zeros(self.z.shape[0])
        weights[free] = root * _solve_positive(square, root * self.margins(right)[free])
        return right - self.combine(weights)


def features_are_cheaper(free: int, d: int, length: float) -> bool:
    """Whether it takes less to sum d by d products of sparse rows than free by free ones."""
    return free * length**2 + d**3 * FLOP < free**2 * length + free**3 * FLOP


def _one_more(square: np.ndarray) -> np.ndarray:
    square[np.diag_indices_from(square)] += 1.0
    return square


def _solve_positive(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve by Cholesky on the lower triangle; where rounding has made it indefinite, a ridge at its level repairs it.

    The result is a direction for a line search, so that a ridge costs steps, not correctness.
    """
    ridge = 1e-15 * float(np.trace(matrix))
    for attempt in range(4):
        _, found, trouble = dposv()(matrix.T, right, lower=0)
        if not trouble:
            return np.asarray(found)
        matrix[np.diag_indices_from(matrix)] += ridge * 100.0**attempt
    return np.full(right.size, np.nan)
