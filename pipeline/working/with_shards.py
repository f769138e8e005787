"""What is known of every row, with the shards on a cluster: each worker has the arrays of its own rows.

The client has columns, which are names: ``column[part]`` is an array where the rows are, and functions of a part run
there (``blocks``), as ``RowState.each`` runs them here. What comes back is what they return: sums, counts, and the rows
that are solved for, by number. Arrays go when nobody has their column any more; that is told along with the next call.

    facts               from the shards, on the workers
    products, norms     written by passes, on the workers
    alpha               of the rows that were solved for is sent there; a model's is read there and back, compressed

A worker that is lost takes its arrays with it. Then all of them are made again from the last finished step, as when a
run is continued (``path.path``): the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

import numpy as np

from pipeline.budget import KNOWN_ROW_BYTES, ROW_BYTES
from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.maths.row_sketch import SketchMaker
from pipeline.passes.scratch import zeros
from pipeline.passes.sums import class_weighted_sum
from pipeline.passes.weighted import inverse_squares
from pipeline.spec import PathSpec
from pipeline.working import blocks
from pipeline.working.blocks import Column, RowBlock, RowFacts
from pipeline.working.facts import settle_weights
from pipeline.working.numbers import PackedNumbers, packed_values, unpacked_values
from pipeline.working.state import ByRow, RowState, blocks_of, ends_of

if TYPE_CHECKING:
    from pipeline.engine.kept import Kept

R = TypeVar("R")

LEAST_ROWS = 2_000_000  # a step makes some 12 calls of 25 ms, in which 24 bytes a row of so many rows travel, too
SHARE_FOR_ARRAYS = 0.4  # of its memory limit: from 60 % on Dask takes measures, and a pass has its own needs


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
        if 0 < SHARE_FOR_ARRAYS * kept.memory(k) < row_bytes * sum(block.n_rows for block in run):
            kept.release()
            return None
    return kept


class ShardState(RowState):
    """``RowState`` with columns for arrays. ``scratch`` is for a model's arrays while it is read or written here."""

    def __init__(self, kept: Kept, n_rows: int, scratch: Path | None) -> None:
        self.kept, self.numbers, self.gone = kept, count(), list[int]()
        self.waiting = list[tuple[Callable[..., None], tuple[Any, ...]]]()
        super().__init__(n_rows, scratch, ends_of([block.shards for run in kept.runs for block in run]))
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
        found = self.kept.each(blocks.on_rows, function, waiting, gone, *arguments, **more)
        del self.gone[: len(gone)]
        self.waiting.clear()
        return [each for run in found for each in run]

    def later(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call function(part, *arguments) for all parts along with the next call."""
        self.waiting.append((function, arguments))

    def each(self, function: Callable[..., R], *arguments: Any) -> list[R]:
        """Return function(part, *arguments) of all parts, in row order."""
        return self._call(blocks.of_parts, function, arguments)

    def where(self, mask: ByRow, *columns: ByRow) -> tuple[np.ndarray, ...]:
        """Return the numbers of the rows of a mask, and what columns have for them."""
        found = self._call(blocks.where, mask, columns)
        values = ([unpacked_values(each[1][k], column.dtype) for each in found] for k, column in enumerate(columns))
        return np.concatenate([each[0].unpacked() for each in found]), *map(np.concatenate, values)

    def put(self, rows: np.ndarray, column: ByRow, values: np.ndarray) -> None:
        """Write what a column has for some rows, by their numbers."""
        ends = [0, *np.searchsorted(rows, self.run_ends).tolist()]
        own = []
        for first, end in pairwise(ends):
            numbers, mine = PackedNumbers.of(rows[first:end]), values[first:end].astype(column.dtype, copy=False)
            own.append((numbers.first, numbers.gaps, _bytes(packed_values(mine))))
        self._call(blocks.put, column, own=own)

    def whole(self, *columns: ByRow) -> tuple[np.ndarray, ...]:
        """Return all of some columns as arrays, which are in scratch files if there is a folder for them."""
        out = tuple(zeros(self.n_rows, np.dtype(column.dtype).type, self.scratch) for column in columns)
        for first, stop, packed in self._call(blocks.packed, columns):
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
        self._call(blocks.unpack, column, own=own)
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
        chosen: ByRow | None = None,
    ) -> list[R]:
        """Write products on the workers; return then(part, slacks near the margin, *arguments) of all parts."""
        del engine, data
        return self._call(blocks.multiply, tuple(out), w_norm, then, arguments, chosen, shared=tuple(vectors))

    def weigh(self, engine: Engine, data: Dataset, weights: np.ndarray, out: ByRow) -> None:
        """Write |z_i/D| of all rows."""
        del engine, data
        self._call(blocks.weigh, out, shared=(inverse_squares(weights),))

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


def collect_there(
    kept: Kept, data: Dataset, spec: PathSpec, scratch: Path | None, trained: SketchMaker | None = None
) -> RowState:
    """Have the facts of all rows collected where the shards are; ``trained`` is given a sketch of each run's rows."""
    data.expect_two_classes("a path")
    state = ShardState(kept, data.n_rows, scratch)
    own = None if trained is None else data.own_features
    columns = state.norms, state.lengths, state.costs, state.labels
    for wide, hashes in kept.each(blocks.begin, columns, spec, own, own=[(run,) for run in kept.runs]):
        state.wide = state.wide or wide
        if trained is not None:
            trained.add(hashes)
    settle_weights(state, spec, data.path)
    return state
