"""Gathering rows: those of a mask, in one matrix or as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.passes.hot import HotRows
from pipeline.solve.sparse_rows import CsrParts, SparseRows

PIECE_NONZEROS = 1_000_000  # of the rows that travel as one result


@dataclass(frozen=True)
class Gathered:
    """Selected rows x_i of a data set in one matrix, with what belongs to them; ``rows`` are their numbers."""

    x: SparseRows
    labels: np.ndarray
    norms: np.ndarray
    rows: np.ndarray


def gather(
    engine: Engine, data: Dataset, selected: np.ndarray, lengths: np.ndarray | None = None, wide: bool | None = None
) -> Gathered:
    """Gather the rows where the boolean mask ``selected`` is true, as ``gather_rows`` does; ``lengths`` of all rows."""
    if selected.shape != (data.n_rows,) or selected.dtype != np.bool_:
        raise ValueError(f"the mask must be boolean with {data.n_rows} entries")
    rows = np.flatnonzero(selected)
    return gather_rows(engine, data, rows, None if lengths is None else lengths[rows], wide)


def gather_rows(
    engine: Engine,
    data: Dataset,
    rows: np.ndarray,
    lengths: np.ndarray | None = None,
    wide: bool | None = None,
    hot: HotRows | None = None,
) -> Gathered:
    """Gather rows by their numbers, which ascend; those that are ``hot`` not from their shards.

    Their lengths, and whether values need 64 bits, come from a first look at the data unless they are given. Then
    the result is sized exactly and filled in place: this process reads the shards itself, wherever passes run.
    """
    data.expect_two_classes("gathering rows with their signs")
    cuts = np.searchsorted(rows, [s.first_row for s in data.shards] + [data.n_rows]).tolist()
    chosen = [_Chosen(s, *ends) for s, *ends in zip(data.shards, cuts, cuts[1:], strict=False) if ends[0] < ends[1]]
    if lengths is None or wide is None:
        sizes = engine.reduce(_shard_size, chosen, _joined, rows) if chosen else []
    else:
        sizes = [(int(lengths[each.first : each.stop].sum(dtype=np.int64)), wide) for each in chosen]
    n, nnz = rows.size, sum(size[0] for size in sizes)
    wide = any(size[1] for size in sizes) if wide is None else wide
    index_type = np.int32 if nnz <= np.iinfo(np.int32).max else np.int64
    values = np.empty(nnz, np.float64 if wide else np.float32)
    out = np.zeros(n + 1, index_type), np.empty(nnz, index_type), values
    about = np.empty(n, np.int8), np.empty(n)
    places, entry = [], 0
    for each, size in zip(chosen, sizes, strict=True):
        places.append(_Place(each, entry, size[0]))
        entry += size[0]
    turned = places if hot is None else hot.turned(places)
    for _ in engine.here.stream(partial(_fill, out=out, about=about, hot=hot), turned, rows, window=len(places)):
        pass
    return Gathered(SparseRows(*out, data.n_features), *about, rows)


@dataclass(frozen=True)
class _Chosen:
    """A shard, and which of the wanted rows' numbers are of its rows."""

    shard: Shard
    first: int
    stop: int

    @property
    def nnz(self) -> int:
        return self.shard.nnz

    @property
    def path(self) -> str:
        return str(getattr(self.shard, "path", ""))

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers that the wanted rows have in the shard."""
        return rows[self.first : self.stop] - self.shard.first_row


@dataclass(frozen=True)
class _Place:
    """From which entry on the ``nnz`` entries of a shard's rows go into the result of ``gather_rows``."""

    chosen: _Chosen
    entry: int
    nnz: int

    @property
    def path(self) -> str:
        return self.chosen.path


def _fill(
    place: _Place, numbers: np.ndarray, out: Sequence[np.ndarray], about: Sequence[np.ndarray], hot: HotRows | None
) -> None:
    """Copy the wanted rows of a shard to their place, with no copy in between."""
    shard, chosen = place.chosen.shard, place.chosen.numbers(numbers)
    here = slice(place.chosen.first, place.chosen.stop)
    alone = [] if hot is not None else [(shard.load(), chosen, np.arange(chosen.size))]
    lengths = np.empty(chosen.size, np.int64)
    for rows, some, places in alone if hot is None else hot.sources(shard, chosen):
        lengths[places] = rows.indptr[some + 1] - rows.indptr[some]
    ends = place.entry + np.cumsum(lengths)
    out[0][1:][here] = ends
    for rows, some, places in alone if hot is None else hot.sources(shard, chosen):
        csr.place_rows((rows.indptr, rows.indices, rows.values), some, (ends - lengths)[places], out[1:])
        for array, source in zip(about, (rows.labels, rows.norms), strict=True):
            array[here][places] = source[some]


def stream_rows(engine: Engine, data: Dataset, selected: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the selected rows in order, as indptr, indices, values and labels: copies of at most a few MB.

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


def _shard_size(chosen: _Chosen, numbers: np.ndarray) -> list[tuple[int, bool]]:
    """Return how many nonzeros the wanted rows of a shard have, and if values need 64 bits."""
    rows = chosen.shard.load()
    lengths = np.diff(rows.indptr)[chosen.numbers(numbers)]
    return [(int(lengths.sum(dtype=np.int64)), bool(rows.values.dtype == np.float64))]


def _piece_rows(piece: tuple[Shard, int, int], selected: np.ndarray) -> tuple[np.ndarray, ...]:
    shard, first, stop = piece
    rows = shard.load()
    chosen = np.flatnonzero(selected[shard.first_row + first : shard.first_row + stop]) + first
    return *picked((rows.indptr, rows.indices, rows.values), chosen), rows.labels[chosen]


def picked(parts: CsrParts, chosen: np.ndarray) -> CsrParts:
    """Return some rows, by number, of those that are indptr, indices and values, as such of their own."""
    indptr, indices, values = parts
    nnz = int(np.diff(indptr)[chosen].sum(dtype=np.int64))
    out = np.zeros(chosen.size + 1, indptr.dtype), np.empty(nnz, indices.dtype), np.empty(nnz, values.dtype)
    csr.copy_rows(parts, chosen, out)
    return out


def _joined(parts: Sequence[list[tuple[int, bool]]]) -> list[tuple[int, bool]]:
    return [size for part in parts for size in part]
