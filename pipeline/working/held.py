"""Rows in the memory of this process: exchanged for others as they are asked for, so that only new ones are read."""

from __future__ import annotations

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.passes.gather import gather_rows
from pipeline.passes.hot import HotRows
from pipeline.solve.dcd_kernel import add_rows
from pipeline.solve.sparse_rows import SparseRows

ROW_BYTES = 64  # of a row besides its nonzeros: its number, and a solver's own arrays
WORTH_KEEPING = 0.6  # below that share of the wanted rows, reading all is cheaper in memory than an exchange
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def value_type(wide: bool) -> type:
    """Return the type of the values held: ``wide`` data have some that need 64 bits."""
    return np.float64 if wide else np.float32


def entry_bytes(wide: bool) -> int:
    """Return what a nonzero takes: its feature and its value."""
    return 4 + np.dtype(value_type(wide)).itemsize


class HeldRows:
    """Rows z_i = y_i x_i by ascending number, and |z_i|; ``read`` counts the nonzeros that were read from the data.

    Those that are ``hot`` are read from there.
    """

    def __init__(self, engine: Engine, data: Dataset, wide: bool, hot: HotRows | None = None) -> None:
        self.engine, self.data, self.wide, self.hot = engine, data, wide, hot
        self.read = 0
        self.release()

    def release(self) -> None:
        """Forget all rows."""
        self.rows, self.parts, self.norms = self._none()

    def hold(self, wanted: np.ndarray, lengths: np.ndarray | None = None) -> None:
        """Hold exactly the rows with these numbers, which ascend: drop others, read the missing ones.

        Their lengths save a look at the data, if they are known.
        """
        keep = among(self.rows, wanted)
        if np.count_nonzero(keep) < WORTH_KEEPING * wanted.size:
            self.release()
            keep = among(self.rows, wanted)
        missing = ~among(wanted, self.rows)
        new_rows, new, norms = self._read(wanted[missing], None if lengths is None else lengths[missing])
        if self.rows.size == 0:
            self.rows, self.parts, self.norms = new_rows, new, norms
        elif new_rows.size or not keep.all():
            self._merge(keep, new_rows, new, norms)

    @property
    def bytes(self) -> int:
        """What the rows take, a solver's own arrays by row included."""
        return self.parts[1].size * entry_bytes(self.wide) + ROW_BYTES * self.rows.size

    def matrix(self) -> SparseRows:
        """Return the rows as a matrix that shares their memory."""
        return SparseRows(*self.parts, self.data.n_features)

    def add_to(self, out: np.ndarray, coefficients: np.ndarray) -> None:
        """Add sum a_i z_i to ``out``."""
        add_rows(self.matrix().parts, coefficients, out)

    def _none(self) -> tuple[np.ndarray, Parts, np.ndarray]:
        parts: Parts = np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, value_type(self.wide))
        return np.empty(0, np.int64), parts, np.empty(0)

    def _read(self, missing: np.ndarray, lengths: np.ndarray | None) -> tuple[np.ndarray, Parts, np.ndarray]:
        if not missing.size:
            return self._none()
        found = gather_rows(self.engine, self.data, missing, lengths, self.wide, self.hot)
        self.read += int(found.x.nnz)
        csr.sign_rows(found.x.indptr, found.x.data, found.labels)
        return found.rows, (found.x.indptr, found.x.indices, found.x.data), found.norms

    def _merge(self, keep: np.ndarray, new_rows: np.ndarray, new: Parts, new_norms: np.ndarray) -> None:
        old = self.parts
        nnz = int(np.diff(old[0])[keep].sum(dtype=np.int64)) + new[1].size
        rows = np.empty(int(np.count_nonzero(keep)) + new_rows.size, np.int64)
        index_type: type = np.int32 if nnz <= np.iinfo(np.int32).max else np.int64
        values: np.ndarray = np.empty(nnz, value_type(self.wide))
        out: Parts = np.zeros(rows.size + 1, index_type), np.empty(nnz, index_type), values
        csr.interleave_rows(self.rows, keep, old, new_rows, new, rows, out)
        norms = np.empty(rows.size)
        norms[np.searchsorted(rows, self.rows[keep])] = self.norms[keep]
        norms[np.searchsorted(rows, new_rows)] = new_norms
        self.rows, self.parts, self.norms = rows, out, norms


def among(some: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Tell which of some numbers are among others; both ascend."""
    if not rows.size:
        return np.zeros(some.size, np.bool_)
    return rows[np.minimum(np.searchsorted(rows, some), rows.size - 1)] == some
