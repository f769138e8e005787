"""What is known of every row, one array entry each: in memory, or in scratch files when the budget is small.

Facts (norm, length, cost, label) are collected once, in one pass (``facts``), and never change. Verdicts and the
working set (``chosen``) are those of the step under way. What proves something (alpha, products) belongs to the pair or
the point that it is part of: ``empty`` makes its arrays, and they go with it (``passes.scratch``).

What is done by row is a function of a part: ``function(part, ...)`` looks at ``array[part]``, writes to it, and returns
sums. ``each`` calls it for all parts, where the arrays are: here, or with the shards on a cluster
(``with_shards.ShardState``). Parts depend on the shards alone, so that sums have the same bits wherever they are made;
BLAS, whose bits depend on its threads, has no place in such a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.maths.slack import Near
from pipeline.passes.hot import HotRows
from pipeline.passes.products import certifying_products, some_products
from pipeline.passes.scratch import zeros
from pipeline.passes.sums import row_sum
from pipeline.passes.weighted import weighted_norms

R = TypeVar("R")

CHUNK = 1 << 16  # rows at a time: half a megabyte an array
BLOCK_NONZEROS = 1 << 22  # of shards whose rows are looked at together: what a worker multiplies in 30 ms
ByRow = Any  # one entry a row: an array, or a column of arrays that are with the shards (``with_shards.Column``)


class RowState:
    """Arrays with one entry a row. Rows left out of training (hold-out, other fold) have cost 0.

    ``left_out_costs`` are those that they would have in training, in their order, where scores weigh them. ``hot`` has
    copies of rows that are read again and again, where the data are larger than the page cache.
    """

    def __init__(
        self, n_rows: int, scratch: Path | None, ends: Sequence[int] = (), engine: Engine | None = None
    ) -> None:
        self.n_rows, self.scratch, self.ends, self.engine = n_rows, scratch, ends or (n_rows,), engine
        self.norms, self.costs = self.empty(np.float64), self.empty(np.float64)
        self.lengths, self.labels = self.empty(np.int32), self.empty(np.int8)
        self.verdicts, self.chosen = self.empty(np.int8), self.empty(np.bool_)
        self.wide = False
        self.trained = n_rows
        self.class_weights = (1.0, 1.0)
        self.left_out_costs: np.ndarray | None = None
        self.hot: HotRows | None = None

    def empty(self, dtype: type = np.float64) -> ByRow:
        """Return one more array, of zeros."""
        return zeros(self.n_rows, dtype, self.scratch)

    def chunks(self) -> Iterator[slice]:
        """Cut the rows into parts that fit into the cache's neighbourhood, block of shards by block."""
        first = 0
        for end in self.ends:
            yield from cut_rows(first, end)
            first = end

    def each(self, function: Callable[..., R], *arguments: Any) -> list[R]:
        """Return function(part, *arguments) of all parts, in row order, several at a time where there are cores.

        It may be repeated, with the same effect.
        """
        parts = list(self.chunks())
        if self.engine is None or len(parts) == 1:
            return [function(part, *arguments) for part in parts]
        return self.engine.each_here(lambda part: function(part, *arguments), parts)

    def later(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call function(part, *arguments) for all parts, which only writes, some time before anything else is done."""
        self.each(function, *arguments)

    def copied(self, column: ByRow) -> ByRow:
        """Return a copy."""
        made = self.empty()
        self.later(_copy, made, column)
        return made

    def joined(self, one: ByRow, other: ByRow) -> ByRow:
        """Return the mask of the rows that either of two has."""
        both = self.empty(np.bool_)
        self.later(_join, both, one, other)
        return both

    def count(self, mask: ByRow) -> int:
        """Return how many rows a mask has."""
        return sum(self.each(_count, mask))

    def where(self, mask: ByRow, *columns: ByRow) -> tuple[np.ndarray, ...]:
        """Return the numbers of the rows of a mask, and what columns have for them."""
        rows = np.flatnonzero(mask)
        return rows, *(column[rows] for column in columns)

    def put(self, rows: np.ndarray, column: ByRow, values: np.ndarray) -> None:
        """Write what a column has for some rows, by their numbers."""
        column[rows] = values

    def whole(self, *columns: ByRow) -> tuple[np.ndarray, ...]:
        """Return all of some columns as arrays."""
        return columns

    def filled(self, fill: Callable[[np.ndarray], object]) -> ByRow:
        """Return a column of what ``fill`` writes to an array."""
        made = self.empty()
        fill(made)
        return made

    def multiply(
        self,
        engine: Engine,
        data: Dataset,
        vectors: Sequence[np.ndarray],
        out: Sequence[ByRow],
        w_norm: float,
        then: Callable[..., R],
        *arguments: Any,
        chosen: ByRow | None = None,
    ) -> list[R]:
        """Write products as ``certifying_products`` does, of the ``chosen`` rows if these are given.

        Return then(part, slacks near the margin, *arguments) of all parts.
        """
        if chosen is not None:
            some = self._some_slacks(some_products(engine, data, vectors, chosen, w_norm, self.hot), out)
            return self.each(_then, some, then, *arguments)
        found, near, first, ends = list[R](), list[tuple[int, Near]](), 0, iter(self.ends)
        end = next(ends)
        for here, some in certifying_products(engine, data, vectors, out, w_norm, self.hot):
            near.append((here.start, some))
            if here.stop == end:
                joined = Near.joined(near)
                found += [then(part, joined.within(part.start, part.stop), *arguments) for part in cut_rows(first, end)]
                first, end, near = end, next(ends, end), []
        return found

    def _some_slacks(
        self, made: Iterator[tuple[np.ndarray, tuple[np.ndarray, ...], Near]], out: Sequence[ByRow]
    ) -> Near:
        """Write products of some rows as they come; return the slacks of all."""
        near = [(0, Near.none())]
        for numbers, found, slacks in made:
            for array, products in zip(out, found, strict=True):
                array[numbers] = products
            near.append((0, Near(numbers[slacks.rows], slacks.slack, slacks.error)))
        return Near.joined(near).ordered()

    def weigh(self, engine: Engine, data: Dataset, weights: np.ndarray, out: ByRow) -> None:
        """Write |z_i/D| of all rows."""
        weighted_norms(engine, data, weights, out)

    def cost_sum(self, engine: Engine, data: Dataset) -> np.ndarray:
        """Return sum c_i z_i."""
        return row_sum(engine, data, self.costs)

    def held_out(self) -> np.ndarray:
        """Return the numbers of the rows left out of training."""
        return self.left_out()[0]

    def left_out(self, *columns: ByRow) -> tuple[np.ndarray, ...]:
        """Return the numbers of these rows, and what columns have for them."""
        left = self.empty(np.bool_)
        self.later(_left_out, left, self.costs)
        return self.where(left, *columns)

    def release(self) -> None:
        """Let go of what is kept elsewhere."""


def frozen(column: ByRow) -> ByRow:
    """Return a column that is not written to any more."""
    if not isinstance(column, np.ndarray):
        return column.frozen()
    column = column.view()
    column.flags.writeable = False
    return column


def cut_rows(first: int, end: int) -> Iterator[slice]:
    """Cut rows into parts."""
    for start in range(first, end, CHUNK):
        yield slice(start, min(end, start + CHUNK))


def blocks_of(shards: Sequence[Shard]) -> list[list[Shard]]:
    """Put neighbours together until they are worth a call: the rows of a block are looked at together."""
    found, rows, nonzeros = list[list[Shard]](), CHUNK, 0
    for shard in shards:
        if rows >= CHUNK or nonzeros >= BLOCK_NONZEROS:
            found.append([])
            rows = nonzeros = 0
        found[-1].append(shard)
        rows, nonzeros = rows + shard.n_rows, nonzeros + shard.nnz
    return found


def ends_of(blocks: Sequence[Sequence[Shard]]) -> list[int]:
    """Return the number of the row after the last of each block."""
    return [block[-1].first_row + block[-1].n_rows for block in blocks]


def _then(part: slice, near: Near, then: Callable[..., R], *arguments: Any) -> R:
    return then(part, near.within(part.start, part.stop), *arguments)


def _copy(part: slice, made: ByRow, column: ByRow) -> None:
    made[part] = column[part]


def _join(part: slice, both: ByRow, one: ByRow, other: ByRow) -> None:
    both[part] = one[part] | other[part]


def _count(part: slice, mask: ByRow) -> int:
    return int(np.count_nonzero(mask[part]))


def _left_out(part: slice, left: ByRow, costs: ByRow) -> None:
    left[part] = costs[part] == 0.0
