"""ColumnSums over kernel columns for all rows: sum_j a_j K(x_i, x_j), shard by shard.

A pass takes some columns (rows of the data that were gathered) with the coefficients of one or several sums. Every
shard makes the values that it does not keep (``column_memo``) and adds them up in bins (``binned``), so that the sums
have the same bits however columns were cut into passes and rows into shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.maths.binned import Binned, Bins, bin_columns
from pipeline.maths.kernel import Rbf
from pipeline.maths.kernel_values import BLOCK, Columns, kernel_columns
from pipeline.passes.column_memo import ShardColumns, columns_kept, forget
from pipeline.passes.gather import gather, picked
from pipeline.passes.products import window_of

AT_ONCE = 4096  # columns a pass: their rows are gathered, and travel; fewer where they are long
NONZEROS_AT_ONCE = 1_000_000  # of them
NO_COLUMNS = Columns(np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0))
ROWS_AT_ONCE = 1 << 14  # of a shard, with columns that are not kept: a block of them is 8 MB


@dataclass(frozen=True)
class ColumnSums:
    """What a pass is asked for: columns by number, and the coefficients and bins of each sum.

    ``columns`` are the rows of those that are ``given``; others are kept. ``capacity`` columns of a shard may be kept
    for ``run``; none for sums over ``awake`` rows only.
    """

    kernel: Rbf
    numbers: np.ndarray
    given: np.ndarray
    columns: Columns
    coefficients: tuple[np.ndarray, ...]
    bins: tuple[Bins, ...]
    run: str
    capacity: int


@dataclass(frozen=True)
class Wanted:
    """One sum: coefficients by row (most of them 0), added to ``into``."""

    coefficients: np.ndarray
    into: Binned


class KernelPasses:
    """Adds columns up over all rows, and counts the kernel values that were made."""

    def __init__(
        self, engine: Engine, data: Dataset, kernel: Rbf, lengths: np.ndarray, wide: bool, run: str, capacity: int
    ) -> None:
        self.engine, self.data, self.kernel = engine, data, kernel
        self.lengths, self.wide, self.run, self.capacity = lengths, wide, run, capacity
        self.passes = self.values = 0
        # Columns that every shard keeps: here, where none is ever thrown out nor lost
        self.made = np.zeros(data.n_rows, np.bool_)
        self.keeps_all = engine.backend.in_process and capacity >= data.n_rows

    def add(self, wanted: Sequence[Wanted], awake: np.ndarray | None = None) -> None:
        """Add the sums for all rows, or for those that are ``awake``; some columns a pass."""
        used = np.zeros(self.data.n_rows, np.bool_)
        for each in wanted:
            used |= each.coefficients != 0.0
        numbers = np.flatnonzero(used)
        for some in self._cut(numbers):
            self._pass(some, wanted, awake)

    def kept_values(self, columns: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        """Return K(x_i, x_j) of some rows i in the columns j of others, one a line; None unless all are kept."""
        if not self.made[columns].all():
            return None
        found = np.empty((columns.size, rows.size))
        for shard in self.data.shards:
            first, stop = np.searchsorted(rows, (shard.first_row, shard.first_row + shard.n_rows)).tolist()
            if first < stop:
                kept = columns_kept(self.run, shard.first_row, shard.n_rows, self.capacity)
                found[:, first:stop] = kept.values[np.ix_(kept.look_up(columns), rows[first:stop] - shard.first_row)]
        return found

    def release(self) -> None:
        """Let workers forget the columns that they keep."""
        for _ in self.engine.stream(_forget, self.data.shards, self.run):
            pass
        forget(self.run)

    def _cut(self, numbers: np.ndarray) -> list[np.ndarray]:
        if 0 < numbers.size <= AT_ONCE and self.lengths[numbers].sum(dtype=np.int64) < NONZEROS_AT_ONCE:
            return [numbers]
        ends = np.cumsum(self.lengths[numbers], dtype=np.int64) // NONZEROS_AT_ONCE
        ends = np.maximum.accumulate(ends + np.arange(numbers.size) // AT_ONCE)
        return np.split(numbers, np.flatnonzero(np.diff(ends)) + 1) if numbers.size else []

    def _pass(self, numbers: np.ndarray, wanted: Sequence[Wanted], awake: np.ndarray | None) -> None:
        given = numbers[~self.made[numbers]]
        sums = ColumnSums(
            self.kernel,
            numbers,
            given,
            self._columns(given) if given.size else NO_COLUMNS,
            tuple(each.coefficients[numbers] for each in wanted),
            tuple(each.into.bins for each in wanted),
            self.run,
            self.capacity,
        )
        shards, row = self.data.shards, 0
        window = window_of(self.engine, self.data, 16 * len(wanted))
        if awake is None:
            for parts, made in self.engine.stream(_shard_sums, shards, sums, window=window):
                part = slice(row, row + parts[0][0].size)
                for each, (first, second) in zip(wanted, parts, strict=True):
                    each.into.add(part, first, second)
                row, self.values = part.stop, self.values + made
            self.made[given] = self.keeps_all
        else:
            for parts, made, rows in self.engine.stream(_awake_sums, shards, sums, awake, window=window):
                for each, (first, second) in zip(wanted, parts, strict=True):
                    each.into.add(rows, first, second)
                self.values += made
        self.passes += 1

    def _columns(self, numbers: np.ndarray) -> Columns:
        mask = np.zeros(self.data.n_rows, np.bool_)
        mask[numbers] = True
        found = gather(self.engine, self.data, mask, self.lengths, self.wide).x
        return Columns(found.indptr, found.indices, found.data)


Parts = list[tuple[np.ndarray, np.ndarray]]


def _shard_sums(shard: Shard, sums: ColumnSums) -> tuple[Parts, int]:
    """Return the bins of every sum for a shard's rows, and how many kernel values were made."""
    rows = shard.load()
    kept = columns_kept(sums.run, shard.first_row, rows.n_rows, sums.capacity)
    return _sums_of(rows, kept, sums)


def _awake_sums(shard: Shard, sums: ColumnSums, awake: np.ndarray) -> tuple[Parts, int, np.ndarray]:
    """Return the same for the rows of a shard that are awake, with their numbers; nothing is kept."""
    numbers = np.flatnonzero(awake[shard.first_row : shard.first_row + shard.n_rows])
    if numbers.size == 0:
        return [(np.empty(0), np.empty(0)) for _ in sums.coefficients], 0, numbers
    rows = shard.load()
    indptr, indices, values = picked((rows.indptr, rows.indices, rows.values), numbers)
    some = replace(rows, indptr=indptr, indices=indices, values=values, labels=rows.labels[numbers])
    return *_sums_of(some, ShardColumns(0, numbers.size), sums), numbers + shard.first_row


def _sums_of(rows: Rows, kept: ShardColumns, sums: ColumnSums) -> tuple[Parts, int]:
    slots = kept.look_up(sums.numbers)
    missing = np.flatnonzero(slots < 0)
    if missing.size:
        return _with_missing(rows, kept, sums, slots, missing)
    totals = _zeros(rows.n_rows, sums)
    _add(kept.values, slots, sums, totals)
    return totals, 0


def _zeros(n: int, sums: ColumnSums) -> Parts:
    return [(np.zeros(n), np.zeros(n)) for _ in sums.coefficients]


def _with_missing(
    rows: Rows, kept: ShardColumns, sums: ColumnSums, slots: np.ndarray, missing: np.ndarray
) -> tuple[Parts, int]:
    """Return the bins where some columns are to be made: those that there is room for are kept, the others pass."""
    n, matrix = rows.n_rows, (rows.indptr, rows.indices, rows.values)
    squares = kept.squares_of(rows.indptr, rows.values)
    room = kept.make_room(sums.numbers[missing])
    stored = missing[: room.size]
    of_given = np.searchsorted(sums.given, sums.numbers)  # where the rows of columns stand
    kernel_columns(sums.kernel, matrix, squares, rows.n_features, sums.columns, of_given[stored], kept.values, room)
    slots[stored] = room
    totals = _zeros(n, sums)
    _add(kept.values, slots, sums, totals)
    rest = missing[room.size :]
    passing = np.empty((min(BLOCK, rest.size), min(n, ROWS_AT_ONCE)))
    for start in range(0, n if rest.size else 0, ROWS_AT_ONCE):
        stop = min(n, start + ROWS_AT_ONCE)
        tile, part = (rows.indptr[start : stop + 1], rows.indices, rows.values), squares[start:stop]
        some_totals = [(first[start:stop], second[start:stop]) for first, second in totals]
        for first in range(0, rest.size, BLOCK):
            some = rest[first : first + BLOCK]
            places, own = np.full(slots.size, -1), np.arange(some.size)
            places[some] = own
            kernel_columns(sums.kernel, tile, part, rows.n_features, sums.columns, of_given[some], passing, own)
            _add(passing, places, sums, some_totals)
    return totals, missing.size * n


def _add(values: np.ndarray, slots: np.ndarray, sums: ColumnSums, totals: Parts) -> None:
    """Add the columns that have a slot, each to the sums that it has a part in."""
    for coefficients, bins, (first, second) in zip(sums.coefficients, sums.bins, totals, strict=True):
        some = np.flatnonzero((coefficients != 0.0) & (slots >= 0))
        if some.size:
            bin_columns(values, slots[some], coefficients[some], bins, first, second)


def _forget(shard: Shard, run: str) -> None:
    del shard
    forget(run)
