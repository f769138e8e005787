"""The rows that are being solved for, as their Gram matrix Q_ij = y_i y_j K(x_i, x_j).

Rows come and go from step to step; values that are there are kept, and of new rows those that passes keep as columns
are looked up: the bits are the same (``kernel_values``). Only the rest is computed, from rows that are read for it.
"""

from __future__ import annotations

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.jit import kernel
from pipeline.maths.kernel_values import Columns, kernel_columns
from pipeline.passes.gather import picked
from pipeline.passes.kernel_sums import KernelPasses
from pipeline.working.held import HeldRows, among
from pipeline.working.state import RowState


class GramRows:
    """At most ``limit`` rows, by ascending number in ``rows``, and their Gram matrix ``q`` in that order."""

    def __init__(self, engine: Engine, data: Dataset, state: RowState, passes: KernelPasses, limit: int) -> None:
        self.state, self.passes, self.limit = state, passes, min(limit, data.n_rows)
        self.n_features = data.n_features
        self.held = HeldRows(engine, data, state.wide)
        self.values = 0
        self.release()

    def release(self) -> None:
        """Forget all rows."""
        self.held.release()
        self.rows, self.q = np.empty(0, np.int64), np.empty((0, 0))
        self.room, self.spare = np.empty(0), np.empty(0)  # q's numbers, and as many for the next one

    def hold(self, rows: np.ndarray) -> None:
        """Hold exactly these rows, and their values among each other."""
        if np.array_equal(rows, self.rows):
            return
        stay = np.flatnonzero(among(self.rows, rows))
        places = np.searchsorted(rows, self.rows[stay])
        q = self._emptied(rows.size)
        copy_block(self.q, stay, q, places)
        new = np.ones(rows.size, np.bool_)
        new[places] = False
        self._fill(q, rows, np.flatnonzero(new))
        self.rows, self.q = rows, q
        self.room, self.spare = self.spare, self.room

    def _emptied(self, size: int) -> np.ndarray:
        """Return room for the values of so many rows: that of the matrix before the last, if it is enough."""
        if size * size > self.spare.size:
            self.spare = np.empty(min(self.limit, int(1.5 * size)) ** 2)
        return self.spare[: size * size].reshape(size, size)

    def _fill(self, q: np.ndarray, rows: np.ndarray, new: np.ndarray) -> None:
        """Write the values of new rows with all."""
        if new.size == 0:
            return
        labels = self.state.labels[rows].astype(np.float64)
        found = self.passes.kept_values(rows[new], rows)
        if found is None:
            found = self._computed(rows, new, labels)
            self.values += found.size
        found *= labels
        found *= labels[new][:, None]
        q[new] = found
        q[:, new] = found.T

    def _computed(self, rows: np.ndarray, new: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the kernel values of some of these rows with all of them."""
        self.held.hold(rows, self.state.lengths[rows])
        z = self.held.matrix()
        values = z.data * np.repeat(labels, np.diff(z.indptr)).astype(z.dtype)  # z_i = y_i x_i, and y_i^2 = 1
        x = z.indptr, z.indices, values
        every, columns = Columns(*x), Columns(*picked(x, new))
        found = np.empty((new.size, labels.size))
        place = np.arange(new.size)
        kernel_columns(self.passes.kernel, x, every.squares, self.n_features, columns, place, found, place)
        return found


@kernel
def copy_block(source, old, target, new):  # type: ignore[no-untyped-def]
    """Copy source[old, old] to target[new, new]; both ascend, mostly one by one, and such runs are copied as one."""
    m = old.size
    ends = np.empty(m, np.int64)
    runs = 0
    for k in range(m):
        if k == m - 1 or old[k + 1] != old[k] + 1 or new[k + 1] != new[k] + 1:
            ends[runs] = k + 1
            runs += 1
    for k in range(m):
        line, out = source[old[k]], target[new[k]]
        first = 0
        for run in range(runs):
            start, there = old[first], new[first]
            for j in range(ends[run] - first):
                out[there + j] = line[start + j]
            first = ends[run]
