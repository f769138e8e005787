"""Scores of rows by a kernel's model: sum_j a_j K(x_j, x) over its support rows, a block of columns at a time.

The bias column is no part of a distance: neither the support rows nor the rows to be scored have it here, and K adds
its square. Sums are added up in bins (``maths.binned``), so that a score has the same bits however rows are cut.
"""

from __future__ import annotations

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import alike
from pipeline.maths.binned import bin_columns, bins_for
from pipeline.maths.kernel import Rbf
from pipeline.maths.kernel_values import Columns, kernel_columns, squares_of

ROWS, COLUMNS = 2048, 512  # of the kernel values that are in memory at a time: 8 MB

Matrix = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Support:
    """Support rows x_j as CSR arrays over some features, with coefficients a_j = y_j alpha_j."""

    kernel: Rbf
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    coefficients: np.ndarray

    def renumbered(self, numbers: np.ndarray) -> Support:
        """Return them with other numbers for their features, in ascending order within each row."""
        indices, row = numbers[self.indices], np.repeat(np.arange(self.coefficients.size), np.diff(self.indptr))
        order = np.lexsort((indices, row))
        return Support(self.kernel, self.indptr, indices[order], self.values[order], self.coefficients)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return the arrays, for tasks to share."""
        return self.indptr, self.indices, self.values, self.coefficients

    def scores(self, matrix: Matrix, n_features: int) -> np.ndarray:
        """Return the scores of the rows of a CSR matrix, whose features are below ``n_features``."""
        indptr, indices, values = matrix
        columns, n = Columns(*alike(self.indptr, self.indices, self.values)), indptr.size - 1
        largest = float(np.abs(self.coefficients).max(initial=0.0)) * self.kernel.square
        bins = bins_for(largest, self.coefficients.size)
        total = np.zeros(n), np.zeros(n)
        made = np.empty((min(COLUMNS, self.coefficients.size), min(ROWS, n)))
        width = max(n_features, 1 + int(self.indices.max(initial=-1)))
        for row in range(0, n, ROWS):
            part = slice(row, min(n, row + ROWS))
            some = indptr[row : part.stop + 1], indices, values
            squares = np.empty(part.stop - row)
            squares_of(*alike(some[0], values), squares)
            for first in range(0, self.coefficients.size, COLUMNS):
                wanted = np.arange(first, min(self.coefficients.size, first + COLUMNS))
                slots = wanted - first
                kernel_columns(self.kernel, some, squares, width, columns, wanted, made, slots)
                bin_columns(made, slots, self.coefficients[wanted], bins, total[0][part], total[1][part])
        return total[0] + total[1]


def without(matrix: Matrix, keep: np.ndarray) -> Matrix:
    """Return the rows of a CSR matrix over the features to ``keep``, with the numbers that they had."""
    indptr, indices, values = matrix
    kept = keep[indices]
    before = np.zeros(indices.size + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    return before[indptr].astype(np.int32), indices[kept], values[kept]
