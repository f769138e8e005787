"""From blocks of any length to shards of the wanted size.

A piece is a run of rows of one block with what is known of their labels. ``ShardCutter`` collects pieces until a shard
is full; ``join`` copies them into the arrays of that shard, with the bias column if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.data.reading.block import Block
from pipeline.data.shards.rows import Rows, joined_groups
from pipeline.data.shards.shard import ROW_BYTES
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

DEFAULT_SHARD_BYTES = 64 << 20  # small beside any --memory, large beside what a task costs
MOST_NONZEROS = 2**31 - 1  # of a shard: its indptr is int32
UNKNOWN_BIAS_INDEX = 2**31 - 1  # the largest int32: above every feature, until their number is known


@dataclass(frozen=True)
class Piece:
    """Rows [start, stop) of a block; ``labels`` are numbers for all of its rows."""

    block: Block
    labels: np.ndarray
    start: int
    stop: int

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return int(self.block.indptr[self.stop] - self.block.indptr[self.start])


class ShardCutter:
    """Cuts a stream of blocks into shards of ``rows_per_shard`` rows, or of about ``shard_bytes`` bytes."""

    def __init__(
        self, rows_per_shard: int | None, shard_bytes: int = DEFAULT_SHARD_BYTES, has_bias: bool = False
    ) -> None:
        self.rows_per_shard, self.shard_bytes, self.has_bias = rows_per_shard, shard_bytes, has_bias
        self.pieces: list[Piece] = []
        self.rows, self.nnz, self.wide = 0, 0, False

    def add(self, block: Block, labels: np.ndarray) -> Iterator[list[Piece]]:
        """Take a block in and yield every shard that it completes."""
        start = 0
        while start < block.n_rows:
            stop, full = self._room(block, start)
            piece = Piece(block, labels, start, stop)
            self.pieces.append(piece)
            self.rows += stop - start
            self.nnz += piece.nnz + self.has_bias * (stop - start)
            self.wide = self.wide or block.values.itemsize > 4
            if self.nnz > MOST_NONZEROS:
                raise DataError("a shard would have more than 2^31 nonzeros; lower --rows-per-shard or --shard-size")
            start = stop
            if full:
                yield self.take()

    def take(self) -> list[Piece]:
        """Return what has been collected and start afresh."""
        pieces, self.pieces = self.pieces, []
        self.rows, self.nnz, self.wide = 0, 0, False
        return pieces

    def _room(self, block: Block, start: int) -> tuple[int, bool]:
        """Return the row up to which the block goes into the open shard, and whether that fills it."""
        if self.rows_per_shard is not None:
            stop = min(block.n_rows, start + self.rows_per_shard - self.rows)
            return stop, self.rows + stop - start == self.rows_per_shard
        rows = np.arange(1, block.n_rows - start + 1)
        nonzeros = self.nnz + (block.indptr[start + 1 :] - block.indptr[start]) + self.has_bias * rows
        pair_bytes = 4 + (8 if self.wide or block.values.itemsize > 4 else 4)
        reached = nonzeros * pair_bytes + (self.rows + rows) * ROW_BYTES
        fitting = int(np.searchsorted(reached, self.shard_bytes))
        return (start + fitting + 1, True) if fitting < rows.size else (block.n_rows, False)


def join(pieces: list[Piece], bias: float, bias_index: int) -> Rows:
    """Copy the pieces of a shard into one set of rows; ``bias`` 0 means no bias column."""
    extra = 1 if bias else 0
    n_rows = sum(p.stop - p.start for p in pieces)
    nnz = sum(p.nnz for p in pieces) + extra * n_rows
    with np.errstate(over="ignore"):
        narrow = all(p.block.values.dtype == np.float32 for p in pieces) and float(np.float32(bias)) == bias
    rows = Rows(
        indptr=np.zeros(n_rows + 1, np.int32),
        indices=np.empty(nnz, np.int32),
        values=np.empty(nnz, np.float32 if narrow else np.float64),
        labels=np.concatenate([p.labels[p.start : p.stop] for p in pieces]),
        costs=np.concatenate([p.block.costs[p.start : p.stop] for p in pieces]),
        norms=np.concatenate([p.block.norms[p.start : p.stop] for p in pieces]),
        n_features=UNKNOWN_BIAS_INDEX,
        groups=joined_groups([None if (g := p.block.groups) is None else g[p.start : p.stop] for p in pieces]),
    )
    row, entry = 0, 0
    for p in pieces:
        source = p.block.indptr[p.start : p.stop + 1]
        count = p.stop - p.start
        target = entry + (source - source[0]) + extra * np.arange(count + 1)
        rows.indptr[row : row + count + 1] = target
        stop = int(target[-1])
        if extra:
            is_bias = np.zeros(stop - entry, dtype=bool)
            is_bias[target[1:] - 1 - entry] = True
            rows.indices[entry:stop][~is_bias] = p.block.indices[source[0] : source[-1]]
            rows.values[entry:stop][~is_bias] = p.block.values[source[0] : source[-1]]
            rows.indices[entry:stop][is_bias] = bias_index
            rows.values[entry:stop][is_bias] = bias
        else:
            rows.indices[entry:stop] = p.block.indices[source[0] : source[-1]]
            rows.values[entry:stop] = p.block.values[source[0] : source[-1]]
        row, entry = row + count, stop
    if extra:
        np.hypot(rows.norms, bias, out=rows.norms)
    return rows
