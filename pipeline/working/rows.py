"""The rows that are being solved for, by their numbers: how many fit, and which are held. A host has them in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.working.held import ROW_BYTES, entry_bytes
from pipeline.working.host import RowHost
from pipeline.working.state import RowState

RUNS_A_BLOCK = 64  # a plain choice: rows from all over the data, in pieces of 100 kB and more


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

    def blocks(self, wanted: np.ndarray, order: np.random.Generator | None = None) -> Iterator[np.ndarray]:
        """Cut a mask into masks that can be held, one after the other, of runs of rows in their order or another.

        A run is consecutive rows, so that the disk is read in long pieces; a block has some dozens of them.
        """
        starts, sizes = self._runs(wanted)
        taken, size = list[int](), 0
        for run in range(sizes.size) if order is None else order.permutation(sizes.size):
            if taken and size + int(sizes[run]) > self.limit:
                yield _marked(wanted, starts, taken)
                taken, size = [], 0
            taken.append(int(run))
            size += int(sizes[run])
        if taken:
            yield _marked(wanted, starts, taken)

    def _runs(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where runs of rows start, with the end of the last, and how many bytes the wanted rows of each are."""
        length, total = max(1, self.limit // RUNS_A_BLOCK), 0
        starts, begun, last = [np.empty(0, np.int64)], [np.empty(0, np.int64)], -1
        for part in self.state.chunks():
            rows = part.start + np.flatnonzero(wanted[part])
            if rows.size:
                sizes = self.state.lengths[rows] * np.int64(entry_bytes(self.state.wide)) + ROW_BYTES
                before = total + np.cumsum(sizes) - sizes
                first = np.diff(before // length, prepend=last) > 0
                starts.append(rows[first])
                begun.append(before[first])
                total, last = int(before[-1] + sizes[-1]), int(before[-1]) // length
        return np.append(np.concatenate(starts), wanted.size), np.diff(np.concatenate(begun), append=total)

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


def _marked(wanted: np.ndarray, starts: np.ndarray, runs: list[int]) -> np.ndarray:
    block = np.zeros_like(wanted)
    for run in runs:
        part = slice(int(starts[run]), int(starts[run + 1]))
        block[part] = wanted[part]
    return block
