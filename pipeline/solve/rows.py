"""The rows of a reduced problem as the kernels take them: (indptr, indices, values), sharing the matrix's memory."""

from __future__ import annotations

import numpy as np

from pipeline.solve.reduced import ReducedProblem
from pipeline.solve.sparse_rows import CsrParts


def rows_of(problem: ReducedProblem) -> CsrParts:
    """Return the arrays. Dense rows need no indices: theirs have two dimensions and no entries."""
    if problem.is_sparse:
        parts: CsrParts = problem.z.parts
        return parts
    n, d = problem.z.shape
    return np.arange(n + 1) * d, np.empty((0, 0), np.uint32), np.ascontiguousarray(problem.z).reshape(-1)


def mean_square(values: np.ndarray, n: int) -> float:
    """Return the mean of |z_i|^2 over n > 0 rows."""
    return float(np.einsum("i,i->", values, values, dtype=np.float64)) / n
