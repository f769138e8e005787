"""The rows that are being solved for, by their numbers: how many fit, and which are held. A host has them in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.working.held import ROW_BYTES, entry_bytes
from pipeline.working.host import RowHost
from pipeline.working.state import RowState


class WorkingRows:
    """Row numbers, ascending, of at most ``limit`` bytes of rows."""

    def __init__(self, host: RowHost, state: RowState, limit: int) -> None:
        self.host, self.state, self.limit = host, state, limit
        self.rows = np.empty(0, np.int64)

    def release(self) -> None:
        """Forget all rows."""
        self.rows = np.empty(0, np.int64)
        self.host.release()

    def hold(self, wanted: np.ndarray) -> None:
        """Hold exactly the rows where ``wanted`` is true."""
        self.host.hold(wanted)
        self.rows = np.flatnonzero(wanted)

    def fits(self, wanted: np.ndarray) -> bool:
        """Tell whether the rows of a mask can be held all at once."""
        nonzeros = sum(int(self.state.lengths[p][wanted[p]].sum(dtype=np.int64)) for p in self.state.chunks())
        return nonzeros * entry_bytes(self.state.wide) + ROW_BYTES * int(np.count_nonzero(wanted)) <= self.limit

    def blocks(self, wanted: np.ndarray) -> Iterator[np.ndarray]:
        """Cut a mask into masks of consecutive rows that can be held, one after the other."""
        rows = np.flatnonzero(wanted)
        sizes = np.cumsum(self.state.lengths[rows] * np.int64(entry_bytes(self.state.wide)) + ROW_BYTES)
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

    def add_to(self, out: np.ndarray, coefficients: np.ndarray) -> None:
        """Add sum a_i z_i over the rows held to ``out``."""
        self.host.add_to(out, coefficients)
