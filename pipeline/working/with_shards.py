"""What is known of every row, with the shards on a cluster: each worker has the arrays of its own rows.

The client has columns, which are names: ``column[part]`` is an array where the rows are, and functions of a part run
there, as ``RowState.each`` runs them here. What comes back is what they return: sums, counts, and the rows that are
solved for, by number. Arrays go when nobody has their column any more; that is told along with the next call.

    facts               from the shards, on the workers
    products, norms     written by passes, on the workers
    alpha               of the rows that were solved for is sent there; a model's is read there and back, compressed

A worker that is lost takes its arrays with it. Then all of them are made again from the last finished step, as when a
run is continued (``path.path``): the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

import numpy as np

from pipeline.budget import KNOWN_ROW_BYTES, ROW_BYTES
from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.maths.row_sketch import MOST, SketchMaker
from pipeline.maths.slack import Near
from pipeline.passes.products import products_of_some, shard_products
from pipeline.passes.scratch import zeros
from pipeline.passes.sums import class_weighted_sum
from pipeline.passes.weighted import inverse_squares, shard_norms
from pipeline.spec import PathSpec
from pipeline.working.numbers import PackedNumbers, packed_values, unpacked_values
from pipeline.working.state import (
    ByRow,
    RowState,
    blocks_of,
    cut_rows,
    ends_of,
    facts_of,
    settle_weights,
)

if TYPE_CHECKING:
    from pipeline.engine.kept import Keeper, Kept

R = TypeVar("R")

LEAST_ROWS = 2_000_000  # a step makes some 12 calls of 25 ms, in which 24 bytes a row of so many rows travel, too
SHARE_OF_WORKER = 0.4  # of its memory limit: from 60 % on Dask takes measures, and a pass has its own needs


def kept_with_shards(engine: Engine, data: Dataset, spec: PathSpec, starts_from_others: bool) -> Kept | None:
    """Return who keeps arrays by row with the shards; None where they are arrays of this process.

    That is so but for a single linear problem over many rows on a cluster whose workers have room: scores of rows that
    are left out need their margins here, and models of other runs (``starts_from_others``) are matched row by row.
    """
    if spec.kernel != "linear" or spec.splits or starts_from_others or data.n_rows < LEAST_ROWS:
        return None
    kept = engine.keeping([RowBlock(shards) for shards in blocks_of(data.shards)])
    if kept is None:
        return None
    row_bytes = ROW_BYTES + (KNOWN_ROW_BYTES if spec.reads_less else 0)
    for k, run in enumerate(kept.runs):
        if 0 < SHARE_OF_WORKER * kept.memory(k) < row_bytes * sum(block.n_rows for block in run):
            kept.release()
            return None
    return kept


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


class ShardState(RowState):
    """``RowState`` with columns for arrays. ``scratch`` is for a model's arrays while it is read or written here."""

    def __init__(self, kept: Kept, n_rows: int, scratch: Path | None) -> None:
        self.kept, self.numbers, self.gone = kept, count(), list[int]()
        self.waiting = list[tuple[Callable[..., None], tuple[Any, ...]]]()
        blocks = [block for run in kept.runs for block in run]
        super().__init__(n_rows, scratch, ends_of([block.shards for block in blocks]))
        self.run_ends = ends_of([run[-1].shards for run in kept.runs])

    def __reduce__(self) -> tuple[Any, ...]:
        """Where the rows are, their facts are enough."""
        return RowFacts, (self.norms, self.costs, self.lengths, self.labels, self.verdicts, self.chosen)

    def empty(self, dtype: type = np.float64) -> ByRow:
        """Return one more column, of zeros."""
        owner, number = _Owner(), next(self.numbers)
        finalize(owner, self.gone.append, number)
        return Column(number, np.dtype(dtype).str, owner=owner)

    def _call(self, function: Callable[..., list[R]], *arguments: Any, **more: Any) -> list[R]:
        """Return what a function of all runs returns, one after the other.

        Before that they do what has waited, and forget what nobody has: a call costs some milliseconds.
        """
        gone, waiting = self.gone.copy(), tuple(self.waiting)
        found = self.kept.each(_on_rows, function, waiting, gone, *arguments, **more)
        del self.gone[: len(gone)]
        self.waiting.clear()
        return [each for run in found for each in run]

    def later(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call function(part, *arguments) for all parts along with the next call."""
        self.waiting.append((function, arguments))

    def each(self, function: Callable[..., R], *arguments: Any) -> list[R]:
        """Return function(part, *arguments) of all parts, in row order."""
        return self._call(_each, function, arguments)

    def where(self, mask: ByRow, *columns: ByRow) -> tuple[np.ndarray, ...]:
        """Return the numbers of the rows of a mask, and what columns have for them."""
        found = self._call(_where, mask, columns)
        values = ([unpacked_values(each[1][k], column.dtype) for each in found] for k, column in enumerate(columns))
        return np.concatenate([each[0].unpacked() for each in found]), *map(np.concatenate, values)

    def put(self, rows: np.ndarray, column: ByRow, values: np.ndarray) -> None:
        """Write what a column has for some rows, by their numbers."""
        ends = [0, *np.searchsorted(rows, self.run_ends).tolist()]
        own = []
        for first, end in pairwise(ends):
            numbers, mine = PackedNumbers.of(rows[first:end]), values[first:end].astype(column.dtype, copy=False)
            own.append((numbers.first, numbers.gaps, _bytes(packed_values(mine))))
        self._call(_put, column, own=own)

    def whole(self, *columns: ByRow) -> tuple[np.ndarray, ...]:
        """Return all of some columns as arrays, which are in scratch files if there is a folder for them."""
        out = tuple(zeros(self.n_rows, np.dtype(column.dtype).type, self.scratch) for column in columns)
        for first, stop, packed in self._call(_packed, columns):
            for array, bits in zip(out, packed, strict=True):
                array[first:stop] = unpacked_values(bits, array.dtype)
        return out

    def filled(self, fill: Callable[[np.ndarray], object]) -> ByRow:
        """Return a column of what ``fill`` writes to an array."""
        made, column, first = zeros(self.n_rows, np.float64, self.scratch), self.empty(), 0
        fill(made)
        own = []
        for end in self.run_ends:
            own.append((_bytes(packed_values(made[first:end])),))
            first = end
        self._call(_unpack, column, own=own)
        return column

    def multiply(
        self,
        engine: Engine,
        data: Dataset,
        vectors: Sequence[np.ndarray],
        out: Sequence[ByRow],
        w_norm: float,
        then: Callable[..., R],
        *arguments: Any,
    ) -> list[R]:
        """Write products on the workers; return then(part, slacks near the margin, *arguments)."""
        del engine, data
        return self._call(_multiply, tuple(out), w_norm, then, arguments, None, shared=tuple(vectors))

    def multiply_some(
        self,
        engine: Engine,
        data: Dataset,
        vectors: Sequence[np.ndarray],
        chosen: ByRow,
        out: Sequence[ByRow],
        w_norm: float,
        then: Callable[..., R],
        *arguments: Any,
    ) -> list[R]:
        """Write the products of the chosen rows, and do the same."""
        del engine, data
        return self._call(_multiply, tuple(out), w_norm, then, arguments, chosen, shared=tuple(vectors))

    def weigh(self, engine: Engine, data: Dataset, weights: np.ndarray, out: ByRow) -> None:
        """Write |z_i/D| of all rows."""
        del engine, data
        self._call(_weigh, out, shared=(inverse_squares(weights),))

    def cost_sum(self, engine: Engine, data: Dataset) -> np.ndarray:
        """Return sum c_i z_i."""
        return class_weighted_sum(engine, data, self.class_weights)

    def release(self) -> None:
        """Let the workers forget all of it."""
        self.kept.release()


def _bytes(packed: bytes) -> np.ndarray:
    """Return bytes as an array, which is placed where tasks find it."""
    return np.frombuffer(packed, np.uint8)


class _Owner:
    """Something that an array lives as long as."""


class RowFacts:
    """The state as functions of a part have it."""

    def __init__(self, *columns: Column) -> None:
        self.norms, self.costs, self.lengths, self.labels, self.verdicts, self.chosen = columns


def collect_there(
    kept: Kept, data: Dataset, spec: PathSpec, scratch: Path | None, trained: SketchMaker | None = None
) -> RowState:
    """Have the facts of all rows collected where the shards are; ``trained`` is given a sketch of each run's rows."""
    data.expect_two_classes("a path")
    state = ShardState(kept, data.n_rows, scratch)
    own = None if trained is None else data.n_features - (1 if data.bias else 0)
    columns = state.norms, state.lengths, state.costs, state.labels
    for wide, hashes in kept.each(_begin, columns, spec, own, own=[(run,) for run in kept.runs]):
        state.wide = state.wide or wide
        if trained is not None:
            trained.add(hashes)
    settle_weights(state, spec, data.path)
    return state


# Where the rows are


def _begin(
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


def _on_rows(
    keeper: Keeper,
    function: Callable[..., R],
    waiting: Sequence[tuple[Callable[..., None], tuple[Any, ...]]],
    gone: Sequence[int],
    *arguments: Any,
) -> R:
    """Do what has waited, forget what nobody has any more, and call a function of the keeper and its blocks."""
    blocks: list[RowBlock] = keeper.found()
    for first, given in waiting:
        _each(keeper, blocks, first, given)
    for block in blocks:
        for number in gone:
            block.arrays.pop(number, None)
    return function(keeper, blocks, *arguments)


def _each(keeper: Keeper, blocks: list[RowBlock], function: Callable[..., R], arguments: tuple[Any, ...]) -> list[R]:
    del keeper
    return [function(part, *arguments) for block in blocks for part in block.parts()]


def _where(
    keeper: Keeper, blocks: list[RowBlock], mask: Column, columns: Sequence[Column]
) -> list[tuple[PackedNumbers, list[bytes]]]:
    del keeper
    wholes = [block.part(block.first_row, block.first_row + block.n_rows) for block in blocks]
    rows = [np.flatnonzero(mask[part]) for part in wholes]
    numbers = np.concatenate([part.start + some for part, some in zip(wholes, rows, strict=True)])
    values = [np.concatenate([c[part][some] for part, some in zip(wholes, rows, strict=True)]) for c in columns]
    return [(PackedNumbers.of(numbers), [packed_values(each) for each in values])]


def _put(
    keeper: Keeper, blocks: list[RowBlock], column: Column, first: int, gaps: np.ndarray, packed: np.ndarray
) -> list[None]:
    del keeper
    rows, values = PackedNumbers(first, gaps).unpacked(), unpacked_values(packed.data, column.dtype)
    for block in blocks:
        begin, end = np.searchsorted(rows, (block.first_row, block.first_row + block.n_rows))
        block.array(column)[rows[begin:end] - block.first_row] = values[begin:end]
    return []


def _packed(keeper: Keeper, blocks: list[RowBlock], columns: Sequence[Column]) -> list[tuple[int, int, list[bytes]]]:
    del keeper
    return [
        (b.first_row, b.first_row + b.n_rows, [packed_values(b.array(column)) for column in columns]) for b in blocks
    ]


def _unpack(keeper: Keeper, blocks: list[RowBlock], column: Column, packed: np.ndarray) -> list[None]:
    del keeper
    values, first = unpacked_values(packed.data, column.dtype), 0
    for block in blocks:
        block.array(column)[:] = values[first : first + block.n_rows]
        first += block.n_rows
    return []


def _multiply(
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


def _weigh(keeper: Keeper, blocks: list[RowBlock], out: Column, inverse: np.ndarray) -> list[None]:
    for block in blocks:
        for shard, part in block.by_shard():
            out[part] = keeper.call(shard_norms, shard, inverse)
    return []
