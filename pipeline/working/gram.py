"""The rows that are being solved for, as their Gram matrix Q_ij = y_i y_j K(x_i, x_j).

Rows come and go from step to step; values that are there stay in their slots, only those of new rows are computed.
"""

from __future__ import annotations

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.maths.kernel import Rbf
from pipeline.maths.kernel_values import Columns, kernel_columns
from pipeline.working.held import HeldRows
from pipeline.working.state import RowState


class GramRows:
    """At most ``limit`` rows, by ascending number in ``rows``, and their Gram matrix."""

    def __init__(self, engine: Engine, data: Dataset, state: RowState, kernel: Rbf, limit: int) -> None:
        self.state, self.kernel, self.limit = state, kernel, min(limit, data.n_rows)
        self.n_features = data.n_features
        self.held = HeldRows(engine, data, state.wide, state.lengths)
        self.values = 0
        self.release()

    def release(self) -> None:
        """Forget all rows."""
        self.held.release()
        self.rows, self.slots = np.empty(0, np.int64), np.empty(0, np.int64)
        self.q = np.empty((0, 0))

    def hold(self, rows: np.ndarray) -> None:
        """Hold exactly these rows: their values among each other are in slots."""
        if np.array_equal(rows, self.rows):
            return
        wanted = np.zeros(self.state.n_rows, np.bool_)
        wanted[rows] = True
        slots = np.full(rows.size, -1, np.int64)
        stay = wanted[self.rows]
        slots[np.searchsorted(rows, self.rows[stay])] = self.slots[stay]
        self._grow(rows.size)
        idle = np.ones(self.q.shape[0], np.bool_)
        idle[self.slots[stay]] = False
        new = np.flatnonzero(slots < 0)
        slots[new] = np.flatnonzero(idle)[: new.size]
        self.held.hold(wanted)
        self._fill(rows, slots, new)
        self.rows, self.slots = rows, slots

    def matrix(self) -> np.ndarray:
        """Return the Gram matrix in the order of ``rows``, a copy."""
        return self.q[np.ix_(self.slots, self.slots)]

    def _grow(self, size: int) -> None:
        """Have at least that many slots."""
        have = self.q.shape[0]
        if size > have:
            q = np.empty((min(self.limit, max(size, 2 * have)),) * 2)
            q[:have, :have] = self.q
            self.q = q

    def _fill(self, rows: np.ndarray, slots: np.ndarray, new: np.ndarray) -> None:
        """Compute the values of new rows with all."""
        if new.size == 0:
            return
        x, labels = self.held.matrix(), self.state.labels[rows].astype(np.float64)
        x.data = x.data * np.repeat(labels, np.diff(x.indptr)).astype(x.data.dtype)  # z_i = y_i x_i, and y_i^2 = 1
        every, some = Columns(x.indptr, x.indices, x.data), x[new]
        found = np.empty((new.size, rows.size))
        matrix, place = (x.indptr, x.indices, x.data), np.arange(new.size)
        columns = Columns(some.indptr, some.indices, some.data)
        kernel_columns(self.kernel, matrix, every.squares, self.n_features, columns, place, found, place)
        found *= labels
        found *= labels[new][:, None]
        self.q[np.ix_(slots[new], slots)] = found
        self.q[np.ix_(slots, slots[new])] = found.T
        self.values += found.size
