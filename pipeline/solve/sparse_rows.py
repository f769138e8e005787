"""Sparse rows as three arrays: what passes and solvers ask of a matrix, by the kernels that a path has loaded anyway.

SciPy's matrices check and convert whenever one is made, 0.1 ms each, and importing them takes 0.2 s, as long as a small
run solves. So they are made only for who needs more of a matrix than this (``scipy``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import alike, kernel
from pipeline.solve.dcd_kernel import add_rows
from pipeline.solve.newton_kernel import write_margins

if TYPE_CHECKING:
    import scipy.sparse as sp

CsrParts = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class SparseRows:
    """Rows z_i as CSR, of ``n_features`` columns; indices are int32, or int64 of more nonzeros than that counts."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    n_features: int

    @classmethod
    def of(cls, matrix: Any) -> SparseRows:
        """Return the rows of one of SciPy's matrices, sharing its memory where it is CSR."""
        found = matrix.tocsr()
        return cls(found.indptr, found.indices, found.data, found.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.indptr.size - 1, self.n_features

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return self.indices.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.data.dtype

    @property
    def parts(self) -> CsrParts:
        """The rows as kernels take them, indices unsigned: as none is negative, Numba need not check for it."""
        unsigned = self.indices.view(np.uint32 if self.indices.dtype == np.int32 else np.uint64)
        return self.indptr, unsigned, self.data

    def times(self, w: np.ndarray) -> np.ndarray:
        """Return z_i . w for every row."""
        out = np.empty(self.indptr.size - 1)
        write_margins(self.parts, w, out)
        return out

    def combined(self, alpha: np.ndarray) -> np.ndarray:
        """Return sum alpha_i z_i."""
        out = np.zeros(self.n_features)
        add_rows(self.parts, np.asarray(alpha, np.float64), out)
        return out

    def toarray(self) -> np.ndarray:
        """Return the rows in full, float64."""
        out = np.zeros(self.shape)
        _spread(*alike(self.indptr, self.indices, self.data), out)
        return out

    def scipy(self) -> sp.csr_array:
        """Return the rows as SciPy's matrix, sharing their memory."""
        import scipy.sparse as sp  # noqa: PLC0415 - slow to import, and few need it

        return sp.csr_array((self.data, self.indices, self.indptr), shape=self.shape, copy=False)


@kernel
def _spread(indptr, indices, values, out):  # type: ignore[no-untyped-def]
    """Write the entries of rows to their places in a matrix of zeros."""
    for i in range(out.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            out[i, indices[k]] = values[k]
