"""Where the rows are: arrays of a worker's own rows, and what the client has done with them (``with_shards``).

``column[part]`` is an array here, so that functions of a part run as they do on one machine. What the client calls is a
function of the keeper, which has the worker's blocks, and of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pipeline.data.dataset import Shard
from pipeline.maths.row_sketch import MOST, SketchMaker
from pipeline.maths.slack import Near
from pipeline.passes.products import products_of_some, shard_products
from pipeline.passes.weighted import shard_norms
from pipeline.spec import PathSpec
from pipeline.working.facts import facts_of
from pipeline.working.numbers import PackedNumbers, packed_values, unpacked_values
from pipeline.working.state import cut_rows

if TYPE_CHECKING:
    from pipeline.engine.kept import Keeper

R = TypeVar("R")


class Column:
    """An array by row whose parts are with the shards: ``column[part]`` is one of them there."""

    def __init__(self, number: int, dtype: str, read_only: bool = False, owner: object = None) -> None:
        self.number, self.dtype, self.read_only = number, dtype, read_only
        self.owner = owner  # what the array lives as long as, here

    def __reduce__(self) -> tuple[Any, ...]:
        return Column, (self.number, self.dtype, self.read_only)

    def frozen(self) -> Column:
        """Return the column as one that is not written to."""
        return Column(self.number, self.dtype, True, self.owner)

    def __getitem__(self, part: RowPart) -> np.ndarray:
        found = part.block.array(self)[part.inside]
        found.flags.writeable = not self.read_only
        return found

    def __setitem__(self, part: RowPart, values: Any) -> None:
        self[part][:] = values


class RowBlock:
    """Some neighbouring shards, and where the arrays of their rows are kept, by the numbers of their columns."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards, self.first_row = shards, shards[0].first_row
        self.n_rows, self.nnz = sum(s.n_rows for s in shards), sum(s.nnz for s in shards)
        self.arrays: dict[int, np.ndarray] = {}

    def array(self, column: Column) -> np.ndarray:
        """Return a column's array of these rows, zeros at first."""
        if column.number not in self.arrays:
            self.arrays[column.number] = np.zeros(self.n_rows, column.dtype)
        return self.arrays[column.number]

    def part(self, first: int, stop: int) -> RowPart:
        """Return some of the rows."""
        return RowPart(self, first, stop)

    def parts(self) -> Iterator[RowPart]:
        """Cut the rows as they are cut everywhere."""
        for each in cut_rows(self.first_row, self.first_row + self.n_rows):
            yield RowPart(self, each.start, each.stop)

    def by_shard(self) -> Iterator[tuple[Shard, RowPart]]:
        """Go through the shards, each with its rows."""
        for shard in self.shards:
            yield shard, RowPart(self, shard.first_row, shard.first_row + shard.n_rows)


class RowPart:
    """Rows ``start`` to ``stop`` of all, in a block."""

    def __init__(self, block: RowBlock, start: int, stop: int) -> None:
        self.block, self.start, self.stop = block, start, stop
        self.inside = slice(start - block.first_row, stop - block.first_row)


class RowFacts:
    """The state as functions of a part have it."""

    def __init__(self, *columns: Column) -> None:
        self.norms, self.costs, self.lengths, self.labels, self.verdicts, self.chosen = columns


def begin(
    keeper: Keeper, columns: Sequence[Column], spec: PathSpec, own: int | None, blocks: list[RowBlock]
) -> tuple[bool, np.ndarray]:
    """Keep blocks from now on, with their facts; return whether values need 64 bits, and a sketch of the rows.

    One hash more than a sketch has tells that it is not complete.
    """
    wide, sketch = False, SketchMaker(MOST + 1)
    for block in blocks:
        for shard, part in block.by_shard():
            norms, lengths, costs, labels, _, features, needs_more = keeper.call(facts_of, shard, spec, own)
            for column, found in zip(columns, (norms, lengths, costs, labels), strict=True):
                column[part] = found
            wide = wide or needs_more
            if own is not None:
                sketch.add(features)
    keeper.thing = blocks
    return wide, sketch.sketch().hashes


def on_rows(
    keeper: Keeper,
    function: Callable[..., R],
    waiting: Sequence[tuple[Callable[..., None], tuple[Any, ...]]],
    gone: Sequence[int],
    *arguments: Any,
) -> R:
    """Do what has waited, forget what nobody has any more, and call a function of the keeper and its blocks."""
    blocks: list[RowBlock] = keeper.found()
    for first, given in waiting:
        of_parts(keeper, blocks, first, given)
    for block in blocks:
        for number in gone:
            block.arrays.pop(number, None)
    return function(keeper, blocks, *arguments)


def of_parts(keeper: Keeper, blocks: list[RowBlock], function: Callable[..., R], arguments: tuple[Any, ...]) -> list[R]:
    """Return what function(part, *arguments) returns for all parts."""
    del keeper
    return [function(part, *arguments) for block in blocks for part in block.parts()]


def where(
    keeper: Keeper, blocks: list[RowBlock], mask: Column, columns: Sequence[Column]
) -> list[tuple[PackedNumbers, list[bytes]]]:
    """Return the numbers of the rows of a mask, and what columns have for them."""
    del keeper
    wholes = [block.part(block.first_row, block.first_row + block.n_rows) for block in blocks]
    rows = [np.flatnonzero(mask[part]) for part in wholes]
    numbers = np.concatenate([part.start + some for part, some in zip(wholes, rows, strict=True)])
    values = [np.concatenate([c[part][some] for part, some in zip(wholes, rows, strict=True)]) for c in columns]
    return [(PackedNumbers.of(numbers), [packed_values(each) for each in values])]


def put(
    keeper: Keeper, blocks: list[RowBlock], column: Column, first: int, gaps: np.ndarray, packed: np.ndarray
) -> list[None]:
    """Write what a column has for some rows, by their numbers."""
    del keeper
    rows, values = PackedNumbers(first, gaps).unpacked(), unpacked_values(packed.data, column.dtype)
    for block in blocks:
        begin, end = np.searchsorted(rows, (block.first_row, block.first_row + block.n_rows))
        block.array(column)[rows[begin:end] - block.first_row] = values[begin:end]
    return []


def packed(keeper: Keeper, blocks: list[RowBlock], columns: Sequence[Column]) -> list[tuple[int, int, list[bytes]]]:
    """Return all of some columns, block by block."""
    del keeper
    return [
        (b.first_row, b.first_row + b.n_rows, [packed_values(b.array(column)) for column in columns]) for b in blocks
    ]


def unpack(keeper: Keeper, blocks: list[RowBlock], column: Column, packed: np.ndarray) -> list[None]:
    """Write all of a column."""
    del keeper
    values, first = unpacked_values(packed.data, column.dtype), 0
    for block in blocks:
        block.array(column)[:] = values[first : first + block.n_rows]
        first += block.n_rows
    return []


def multiply(
    keeper: Keeper,
    blocks: list[RowBlock],
    out: Sequence[Column],
    w_norm: float,
    then: Callable[..., R],
    arguments: tuple[Any, ...],
    chosen: Column | None,
    *vectors: np.ndarray,
) -> list[R]:
    """Write the products of all rows, or of those chosen, block by block, and call ``then`` for the parts of each."""
    made = list[R]()
    for block in blocks:
        near = [(0, Near.none())]
        for shard, part in block.by_shard():
            if chosen is None:
                found, slacks = keeper.call(shard_products, shard, w_norm, *vectors)
                for column, products in zip(out, found, strict=True):
                    column[part] = products
                near.append((shard.first_row, slacks))
            elif (some := np.flatnonzero(chosen[part])).size:
                found, slacks = keeper.call(products_of_some, shard, some, w_norm, *vectors)
                for column, products in zip(out, found, strict=True):
                    column[part][some] = products
                near.append((0, Near(shard.first_row + some[slacks.rows], slacks.slack, slacks.error)))
        joined = Near.joined(near)
        made += [then(part, joined.within(part.start, part.stop), *arguments) for part in block.parts()]
    return made


def weigh(keeper: Keeper, blocks: list[RowBlock], out: Column, inverse: np.ndarray) -> list[None]:
    """Write |z_i/D| of all rows."""
    for block in blocks:
        for shard, part in block.by_shard():
            out[part] = keeper.call(shard_norms, shard, inverse)
    return []
