"""Kernel columns that are kept where passes run: for every shard as many as the budget has room for, the latest used.

A memo and nothing more: what is not kept is computed again, to the same bits, and a worker that is lost takes its memo
with it. Room is reserved as address space; memory is used as columns come.
"""

from __future__ import annotations

import threading

import numpy as np

from pipeline.jit import alike
from pipeline.maths.kernel_values import squares_of


class ShardColumns:
    """The columns kept of one shard, ``capacity`` at most: column ``owner[k]`` is ``values[k]``; -1 is none."""

    def __init__(self, capacity: int, n_rows: int) -> None:
        self.values = np.empty((capacity, n_rows))
        self.owner = np.full(capacity, -1, np.int64)
        self.order = self.owned = np.empty(0, np.int64)  # the slots in use by their owners, and these
        self.used = np.zeros(capacity, np.int64)
        self.clock = 0
        self.squares: np.ndarray | None = None

    def squares_of(self, indptr: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return |x_i|^2 of the shard's rows."""
        if self.squares is None:
            found = np.empty(indptr.size - 1)
            squares_of(*alike(indptr, values), found)
            self.squares = found
        return self.squares

    def look_up(self, numbers: np.ndarray) -> np.ndarray:
        """Return the slots of columns, -1 for those that are not kept; what is asked for is not thrown out next."""
        self.clock += 1
        slots = np.full(numbers.size, -1, np.int64)
        if self.owned.size:
            at = np.minimum(np.searchsorted(self.owned, numbers), self.owned.size - 1)
            slots = np.where(self.owned[at] == numbers, self.order[at], slots)
            self.used[slots[slots >= 0]] = self.clock
        return slots

    def make_room(self, numbers: np.ndarray) -> np.ndarray:
        """Return slots for the first of these columns, as many as there is room for beside those in use now."""
        idle = np.flatnonzero(self.used < self.clock)
        if idle.size > numbers.size:
            idle = idle[np.argpartition(self.used[idle], numbers.size)[: numbers.size]]
        slots = idle[: numbers.size]
        self.owner[slots], self.used[slots] = numbers[: slots.size], self.clock
        taken = np.flatnonzero(self.owner >= 0)
        self.order = taken[np.argsort(self.owner[taken])]
        self.owned = self.owner[self.order]
        return slots


_kept: dict[tuple[str, int], ShardColumns] = {}
_lock = threading.Lock()


def columns_kept(run: str, first_row: int, n_rows: int, capacity: int) -> ShardColumns:
    """Return what is kept of a shard for a run; only one task at a time works on a shard."""
    with _lock:
        found = _kept.get((run, first_row))
        if found is None:
            found = _kept[run, first_row] = ShardColumns(capacity, n_rows)
        return found


def forget(run: str) -> None:
    """Let go of what is kept for a run."""
    with _lock:
        for key in [key for key in _kept if key[0] == run]:
            del _kept[key]
