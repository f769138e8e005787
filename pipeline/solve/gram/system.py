"""The linear systems of the solvers: (Q_JJ + diag) x = right over some rows J, by Cholesky."""

from __future__ import annotations

import numpy as np

from pipeline.blas import dposv
from pipeline.solve.gram.kernels import Square, block

REPAIRS = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)  # of the mean diagonal: rounding is worth about 1e-16 a row
NUMBERS_A_ROW = 30  # of the solvers' vectors; a plain choice, above what they have


def mean_diagonal(q: np.ndarray) -> float:
    """Return the mean |z_i|^2 of a Gram matrix; where that is 0 a number whose inverse can still be squared."""
    return max(float(np.diagonal(q).mean()), 1e-90) if q.size else 1.0


def system_bytes(n: int) -> int:
    """Return what a system over all n rows takes: its matrix, factored in place, and the solver's vectors."""
    return 8 * n * (n + NUMBERS_A_ROW)


def solve_block(square: Square, rows: np.ndarray, diagonal: float, right: np.ndarray) -> np.ndarray:
    """Solve; where rounding has made the matrix indefinite a ridge at its level repairs it; nan if nothing does.

    The result is a direction for a line search, so that a ridge costs rounds, not correctness.
    """
    matrix = np.empty((rows.size, rows.size))
    where = np.diag_indices_from(matrix)
    for repair in REPAIRS:
        block(square, rows, matrix)
        matrix[where] += diagonal + repair * matrix[where].mean()
        _, found, trouble = dposv()(matrix.T, right, lower=0, overwrite_a=1)
        if not trouble:
            return np.asarray(found)
    return np.full(right.size, np.nan)
