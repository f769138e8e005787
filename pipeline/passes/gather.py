"""Gathering rows: those of a mask, in one matrix or as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.solve.sparse_rows import CsrParts, SparseRows

PIECE_NONZEROS = 1_000_000  # of the rows that travel as one result


@dataclass(frozen=True)
class Gathered:
    """Selected rows x_i of a data set in one matrix, with what belongs to them; ``rows`` are their numbers."""

    x: SparseRows
    labels: np.ndarray
    costs: np.ndarray
    norms: np.ndarray
    rows: np.ndarray


def gather(
    engine: Engine, data: Dataset, selected: np.ndarray, lengths: np.ndarray | None = None, wide: bool | None = None
) -> Gathered:
    """Gather the rows where the boolean mask ``selected`` is true, in row order.

    The rows' lengths, and whether values need 64 bits, come from a first look at the data unless they are given. Then
    the result is sized exactly and filled in place: this process reads the shards itself, wherever passes run.
    """
    data.expect_two_classes("gathering rows with their signs")
    if selected.shape != (data.n_rows,) or selected.dtype != np.bool_:
        raise ValueError(f"the mask must be boolean with {data.n_rows} entries")
    shards = [s for s in data.shards if selected[s.first_row : s.first_row + s.n_rows].any()]
    if lengths is None or wide is None:
        sizes = engine.reduce(_shard_size, shards, _joined, selected) if shards else []
    else:
        sizes = [_size(lengths[s.first_row : s.first_row + s.n_rows], s, selected, wide) for s in shards]
    n, nnz = (sum(size[k] for size in sizes) for k in (0, 1))
    wide = any(size[2] for size in sizes) if wide is None else wide
    index_type = np.int32 if nnz <= np.iinfo(np.int32).max else np.int64
    values = np.empty(nnz, np.float64 if wide else np.float32)
    out = np.zeros(n + 1, index_type), np.empty(nnz, index_type), values
    about = np.empty(n, np.int8), np.empty(n), np.empty(n)
    places, row, entry = [], 0, 0
    for shard, size in zip(shards, sizes, strict=True):
        places.append(_Place(shard, row, entry, size[1]))
        row, entry = row + size[0], entry + size[1]
    for _ in engine.here.stream(partial(_fill, out=out, about=about), places, selected, window=len(places)):
        pass
    return Gathered(SparseRows(*out, data.n_features), *about, np.flatnonzero(selected))


@dataclass(frozen=True)
class _Place:
    """Where the rows of a shard go in the result of ``gather``: from which row and which entry on, ``nnz`` entries."""

    shard: Shard
    row: int
    entry: int
    nnz: int

    @property
    def path(self) -> str:
        return str(getattr(self.shard, "path", ""))


def _fill(place: _Place, selected: np.ndarray, out: Sequence[np.ndarray], about: Sequence[np.ndarray]) -> None:
    """Copy the selected rows of a shard to their place, with no copy in between."""
    rows, shard = place.shard.load(), place.shard
    chosen = np.flatnonzero(selected[shard.first_row : shard.first_row + shard.n_rows])
    indptr, indices, values = out[0][place.row : place.row + chosen.size + 1], out[1], out[2]
    csr.copy_rows((rows.indptr, rows.indices, rows.values), chosen, place.entry, (indptr, indices, values))
    for array, source in zip(about, (rows.labels, rows.costs, rows.norms), strict=True):
        array[place.row : place.row + chosen.size] = source[chosen]


def stream_rows(engine: Engine, data: Dataset, selected: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the selected rows in order, as indptr, indices, values, labels, costs, norms: copies of at most a few MB.

    Shards are cut by their mean row length; a piece of unusually long rows is larger.
    """
    pieces = []
    for shard in data.shards:
        step = max(1, int(PIECE_NONZEROS * shard.n_rows / max(1, shard.nnz)))
        for first in range(0, shard.n_rows, step):
            stop = min(shard.n_rows, first + step)
            if selected[shard.first_row + first : shard.first_row + stop].any():
                pieces.append((shard, first, stop))
    return engine.stream(_piece_rows, pieces, selected)


def _shard_size(shard: Shard, selected: np.ndarray) -> list[tuple[int, int, bool]]:
    rows = shard.load()
    return [_size(np.diff(rows.indptr), shard, selected, bool(rows.values.dtype == np.float64))]


def _size(lengths: np.ndarray, shard: Shard, selected: np.ndarray, wide: bool) -> tuple[int, int, bool]:
    """Return how many rows of a shard are selected, how many nonzeros they have, and if values need 64 bits."""
    mine = selected[shard.first_row : shard.first_row + shard.n_rows]
    return int(np.count_nonzero(mine)), int(lengths[mine].sum(dtype=np.int64)), wide


def _piece_rows(piece: tuple[Shard, int, int], selected: np.ndarray) -> tuple[np.ndarray, ...]:
    shard, first, stop = piece
    rows = shard.load()
    chosen = np.flatnonzero(selected[shard.first_row + first : shard.first_row + stop]) + first
    return (
        *picked((rows.indptr, rows.indices, rows.values), chosen),
        rows.labels[chosen],
        rows.costs[chosen],
        rows.norms[chosen],
    )


def picked(parts: CsrParts, chosen: np.ndarray) -> CsrParts:
    """Return some rows, by number, of those that are indptr, indices and values, as such of their own."""
    indptr, indices, values = parts
    nnz = int(np.diff(indptr)[chosen].sum(dtype=np.int64))
    out = np.zeros(chosen.size + 1, indptr.dtype), np.empty(nnz, indices.dtype), np.empty(nnz, values.dtype)
    csr.copy_rows(parts, chosen, 0, out)
    return out


def _joined(parts: Sequence[list[tuple[int, int, bool]]]) -> list[tuple[int, int, bool]]:
    return [size for part in parts for size in part]
