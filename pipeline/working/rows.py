"""The rows that are being solved for, by their numbers: how many fit, and which are held. A host has them in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pipeline.working.held import HELD_ROW_BYTES, among, entry_bytes
from pipeline.working.host import RowHost
from pipeline.working.state import ByRow, RowState

# From all over the data, yet in pieces of 400 kB and more, beside which what systems read ahead is little. 8 or 64 of
# them make no difference (url-like, two grids at 1/60: 17.7, 17.3, 18.3 and 37.3, 37.6, 36.8 reads with 8, 16, 64).
RUNS_A_BLOCK = 16


class WorkingRows:
    """Row numbers, ascending, of at most ``limit`` bytes of rows, and their lengths. Masks are by row."""

    def __init__(self, host: RowHost, state: RowState, limit: int) -> None:
        self.host, self.state, self.limit = host, state, limit
        self.rows, self.lengths = np.empty(0, np.int64), np.empty(0, np.int32)
        self._sized: tuple[ByRow, int, int] = None, 0, 0

    @property
    def _entry(self) -> int:
        return entry_bytes(self.state.wide)

    def release(self) -> None:
        """Forget all rows."""
        self.rows, self.lengths = np.empty(0, np.int64), np.empty(0, np.int32)
        self._sized = None, 0, 0
        self.host.release()

    def hold(self, wanted: ByRow, *columns: ByRow) -> tuple[np.ndarray, ...]:
        """Hold exactly the rows where ``wanted`` is true; return what columns have for them."""
        rows, lengths, *values = self.state.where(wanted, self.state.lengths, *columns)
        self._hold(rows, lengths)
        return tuple(values)

    def _hold(self, rows: np.ndarray, lengths: np.ndarray) -> None:
        self.host.hold(rows, lengths)
        self.rows, self.lengths = rows, lengths

    def fits(self, wanted: ByRow) -> bool:
        """Tell whether the rows of a mask can be held all at once."""
        return self._size(wanted)[1] <= self.limit

    def count(self, wanted: ByRow) -> int:
        """Return how many rows a mask has."""
        return self._size(wanted)[0]

    def _size(self, wanted: ByRow) -> tuple[int, int]:
        """Return how many rows a mask has, and how many bytes these take. Masks of a step are written once."""
        if self._sized[0] is not wanted:
            parts = self.state.each(_sizes, wanted, self.state.lengths, self._entry)
            self._sized = wanted, sum(part.rows for part in parts), sum(part.bytes for part in parts)
        return self._sized[1:]

    def blocks(self, wanted: ByRow, order: np.random.Generator | None = None) -> Iterator[ByRow]:
        """Cut a mask into masks that can be held, one after the other, of runs of rows in their order or another.

        A run is consecutive rows, so that the disk is read in long pieces.
        """
        starts, sizes = self._runs(wanted)
        taken, size = list[int](), 0
        for run in range(sizes.size) if order is None else order.permutation(sizes.size):
            if taken and size + int(sizes[run]) > self.limit:
                yield self._marked(wanted, starts, taken)
                taken, size = [], 0
            taken.append(int(run))
            size += int(sizes[run])
        if taken:
            yield self._marked(wanted, starts, taken)

    def _runs(self, wanted: ByRow) -> tuple[np.ndarray, np.ndarray]:
        """Return where runs of rows start, with the end of the last, and how many bytes the wanted rows of each are."""
        rows, entry, length = self.state, self._entry, max(1, self.limit // RUNS_A_BLOCK)
        total, last, before = 0, -1, dict[int, tuple[int, int]]()
        for part in rows.each(_sizes, wanted, rows.lengths, entry):
            before[part.start] = total, last
            total += part.bytes
            last = (total - part.last) // length if part.rows else last
        found = rows.each(_starts, wanted, rows.lengths, entry, length, before)
        starts, begun = (np.concatenate([np.empty(0, np.int64), *(part[k] for part in found)]) for k in (0, 1))
        return np.append(starts, rows.n_rows), np.diff(begun, append=total)

    def _marked(self, wanted: ByRow, starts: np.ndarray, runs: list[int]) -> ByRow:
        block = self.state.empty(np.bool_)
        self.state.later(_mark, block, wanted, [(int(starts[run]), int(starts[run + 1])) for run in sorted(runs)])
        return block

    def visit(self, wanted: ByRow, *columns: ByRow) -> Iterator[tuple[np.ndarray, ...]]:
        """Hold all rows of a mask, beside those that are held if there is room, else one block after the other.

        Yield the rows that are held, the places among them of those of the mask, and what columns have for these.
        """
        rows, lengths, *values = self.state.where(wanted, self.state.lengths, *columns)
        new = ~among(rows, self.rows)
        total = int(self.lengths.sum(dtype=np.int64)) + int(lengths.sum(dtype=np.int64, where=new))
        both = self.rows.size + int(np.count_nonzero(new))
        if total * self._entry + HELD_ROW_BYTES * both <= self.limit:
            if new.any():
                together = np.concatenate([self.rows, rows[new]])
                order = np.argsort(together, kind="stable")
                self._hold(together[order], np.concatenate([self.lengths, lengths[new]])[order])
            yield self.rows, np.searchsorted(self.rows, rows), *values
            return
        for block in self.blocks(wanted):
            found = self.hold(block, *columns)
            yield self.rows, np.arange(self.rows.size), *found

    def add_to(self, out: np.ndarray, coefficients: np.ndarray) -> None:
        """Add sum a_i z_i over the rows held to ``out``."""
        self.host.add_to(out, coefficients)


class _Sizes(NamedTuple):
    """The first row of a part, how many of its rows are wanted, what they take, and what the last of them takes."""

    start: int
    rows: int
    bytes: int
    last: int


def _sizes(part: slice, wanted: ByRow, lengths: ByRow, entry: int) -> _Sizes:
    mine = lengths[part][wanted[part]]
    if not mine.size:
        return _Sizes(part.start, 0, 0, 0)
    total = int(mine.sum(dtype=np.int64)) * entry + HELD_ROW_BYTES * mine.size
    return _Sizes(part.start, mine.size, total, int(mine[-1]) * entry + HELD_ROW_BYTES)


def _starts(
    part: slice, wanted: ByRow, lengths: ByRow, entry: int, length: int, before: dict[int, tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a part that runs of ``length`` bytes start with, and how many bytes of rows come before each.

    ``before`` are the bytes before each part, and the number of the run that the row before it is in.
    """
    rows, (total, last) = np.flatnonzero(wanted[part]), before[part.start]
    sizes = lengths[part][rows] * np.int64(entry) + HELD_ROW_BYTES
    begun = total + np.cumsum(sizes) - sizes
    first = np.diff(begun // length, prepend=last) > 0
    return part.start + rows[first], begun[first]


def _mark(part: slice, block: ByRow, wanted: ByRow, runs: list[tuple[int, int]]) -> None:
    mine, mask = block[part], wanted[part]
    for start, stop in runs:
        inside = slice(max(0, start - part.start), max(0, stop - part.start))
        mine[inside] = mask[inside]
