"""The rows that are being solved for, in memory: kept from step to step, so that only new ones are read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.flow.passes import gather
from pipeline.flow.row_arrays import RowArrays
from pipeline.maths import csr

ROW_BYTES = 64  # of a row besides its nonzeros: its number, and a solver's own arrays
WORTH_KEEPING = 0.6  # below that share of the wanted rows, reading all is cheaper in memory than an exchange
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


class WorkingRows:
    """Rows z_i = y_i x_i by ascending number. ``read`` counts the nonzeros that were read from the data."""

    def __init__(self, engine: Engine, data: Dataset, arrays: RowArrays, limit: int) -> None:
        self.engine, self.data, self.arrays, self.limit = engine, data, arrays, limit
        self.read = 0
        self.release()

    def release(self) -> None:
        """Forget all rows."""
        self.rows = np.empty(0, np.int64)
        self.parts: Parts = np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, self._value_type())

    def hold(self, wanted: np.ndarray) -> None:
        """Hold exactly the rows where ``wanted`` is true: drop others, read the missing ones."""
        keep = wanted[self.rows]
        if np.count_nonzero(keep) < WORTH_KEEPING * np.count_nonzero(wanted):
            self.release()
            keep = wanted[self.rows]
        missing = wanted.copy()
        missing[self.rows] = False
        new_rows, new = self._read(missing)
        if self.rows.size == 0:
            self.rows, self.parts = new_rows, new
        elif new_rows.size or not keep.all():
            self._merge(keep, new_rows, new)

    @property
    def bytes(self) -> int:
        """What the rows held take, a solver's own arrays by row included."""
        return self.parts[1].size * self._entry_bytes() + ROW_BYTES * self.rows.size

    def fits(self, wanted: np.ndarray) -> bool:
        """Tell whether the rows of a mask can be held all at once."""
        return self._bytes(wanted) <= self.limit

    def blocks(self, wanted: np.ndarray) -> Iterator[np.ndarray]:
        """Cut a mask into masks of consecutive rows that can be held, one after the other."""
        rows = np.flatnonzero(wanted)
        sizes = np.cumsum(self.arrays.lengths[rows] * np.int64(self._entry_bytes()) + ROW_BYTES)
        first, done = 0, 0
        while first < rows.size:
            stop = max(first + 1, int(np.searchsorted(sizes, done + self.limit, side="right")))
            block = np.zeros_like(wanted)
            block[rows[first:stop]] = True
            yield block
            first, done = stop, int(sizes[stop - 1])

    def visit(self, wanted: np.ndarray) -> Iterator[np.ndarray]:
        """Yield row numbers, in order, that cover a mask; while each is yielded (at least) these rows are held."""
        together = wanted.copy()
        together[self.rows] = True
        if self.fits(together):
            self.hold(together)
            yield self.rows
            return
        for block in self.blocks(wanted):
            self.hold(block)
            yield self.rows

    def matrix(self) -> sp.csr_array:
        """Return the rows as a matrix that shares their memory."""
        indptr, indices, values = self.parts
        shape = (self.rows.size, self.data.n_features)
        return sp.csr_array((values, indices, indptr), shape=shape, copy=False)

    def add_to(self, out: np.ndarray, coefficients: np.ndarray) -> None:
        """Add sum a_i z_i over the rows held to ``out``."""
        csr.add_rows(*self.parts, coefficients, out)

    def _nonzeros(self, wanted: np.ndarray) -> int:
        return sum(int(self.arrays.lengths[p][wanted[p]].sum(dtype=np.int64)) for p in self.arrays.chunks())

    def _bytes(self, wanted: np.ndarray) -> int:
        return self._nonzeros(wanted) * self._entry_bytes() + ROW_BYTES * int(np.count_nonzero(wanted))

    def _entry_bytes(self) -> int:
        return 4 + np.dtype(self._value_type()).itemsize

    def _read(self, missing: np.ndarray) -> tuple[np.ndarray, Parts]:
        nnz = self._nonzeros(missing)
        self.read += nnz
        found = gather(self.engine, self.data, missing, self.arrays.lengths, self.arrays.wide)
        csr.sign_rows(found.x.indptr, found.x.data, found.labels)
        return found.rows, (found.x.indptr, found.x.indices, found.x.data)

    def _merge(self, keep: np.ndarray, new_rows: np.ndarray, new: Parts) -> None:
        old = self.parts
        nnz = int(np.diff(old[0])[keep].sum(dtype=np.int64)) + new[1].size
        rows = np.empty(int(np.count_nonzero(keep)) + new_rows.size, np.int64)
        index_type: type = np.int32 if nnz <= np.iinfo(np.int32).max else np.int64
        out: Parts = np.zeros(rows.size + 1, index_type), np.empty(nnz, index_type), np.empty(nnz, self._value_type())
        csr.interleave_rows(self.rows, keep, old, new_rows, new, rows, out)
        self.rows, self.parts = rows, out

    def _value_type(self) -> type:
        return np.float64 if self.arrays.wide else np.float32
