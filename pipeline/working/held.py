"""Rows in the memory of this process: exchanged for others as they are asked for, so that only new ones are read."""

from __future__ import annotations

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.jit import alike, kernel
from pipeline.maths import csr
from pipeline.passes.gather import gather_rows
from pipeline.passes.hot import HotRows
from pipeline.solve.dcd_kernel import add_rows
from pipeline.solve.sparse_rows import SparseRows

HELD_ROW_BYTES = 64  # of a row besides its nonzeros: its number, and a solver's own arrays
WORTH_KEEPING = 0.6  # below that share of the wanted rows, reading all is cheaper in memory than an exchange
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def value_type(wide: bool) -> type:
    """Return the type of the values held: ``wide`` data have some that need 64 bits."""
    return np.float64 if wide else np.float32


def entry_bytes(wide: bool) -> int:
    """Return what a nonzero takes: its feature and its value."""
    return 4 + np.dtype(value_type(wide)).itemsize


def bytes_held(rows: int, nonzeros: int, wide: bool) -> int:
    """Return what so many rows take, a solver's own arrays by row included."""
    return entry_bytes(wide) * nonzeros + HELD_ROW_BYTES * rows


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
        _, new, norms = self._read(wanted[missing], None if lengths is None else lengths[missing])
        if self.rows.size == 0:
            self.rows, self.parts, self.norms = wanted, new, norms
        elif missing.any() or not keep.all():
            self._exchange(keep, missing, new, norms)
            self.rows = wanted

    @property
    def bytes(self) -> int:
        """What the rows take, a solver's own arrays by row included."""
        return bytes_held(self.rows.size, self.parts[1].size, self.wide)

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

    def _exchange(self, keep: np.ndarray, missing: np.ndarray, new: Parts, new_norms: np.ndarray) -> None:
        """Let go of all rows but some, and put new ones in between, without a second copy of those that stay.

        Both masks are by row: ``keep`` of the rows held so far, ``missing`` of those held afterwards.
        """
        kept, norms = int(np.count_nonzero(keep)), np.empty(missing.size)
        norms[~missing], norms[missing] = self.norms[keep], new_norms
        parts = list(self.parts)
        self.release()  # whatever fails from here on, no rows are held that are half-changed
        csr.copy_rows(tuple(parts), np.flatnonzero(keep), tuple(parts))
        nnz = int(parts[0][kept]) + new[1].size
        index_type: type = np.int32 if nnz <= np.iinfo(np.int32).max else np.int64
        values = resized(parts, nnz, value_type(self.wide))
        indices = resized(parts, nnz, index_type)
        indptr = resized(parts, missing.size + 1, index_type)
        csr.insert_rows((indptr, indices, values), missing, new)
        self.parts, self.norms = (indptr, indices, values), norms


def resized(arrays: list[np.ndarray], size: int, dtype: type) -> np.ndarray:
    """Take the last array, and return it with more or fewer entries at its end.

    Where nobody else has it that is done in place: what is large is not copied, the system moves its pages.
    """
    array = arrays.pop()
    if array.dtype == dtype:
        try:
            array.resize(size)
        except ValueError:  # somebody has
            pass
        else:
            return array
    found: np.ndarray = np.empty(size, dtype)
    found[: array.size] = array[:size]
    return found


def among(some: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Tell which of some numbers are among others; both ascend."""
    found = np.zeros(some.size, np.bool_)
    _mark_common(*alike(some, rows), found)
    return found


@kernel
def _mark_common(some, rows, found):  # type: ignore[no-untyped-def]
    """Go through both side by side: of millions that takes a fourteenth of looking each up."""
    at = 0
    for k in range(some.size):
        while at < rows.size and rows[at] < some[k]:
            at += 1
        if at == rows.size:
            break
        found[k] = rows[at] == some[k]
