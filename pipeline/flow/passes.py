"""The passes over a data set that everything else is made of: margins, sums of rows, gathering rows.

Each is a function of one shard, a merge in shard order, and the engine that runs them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import scipy.sparse as sp

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.rows import Rows
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.maths.csr import SparseVector
from pipeline.maths.slack import Near, near_margin

RESULT_BYTES, RESULT_BYTES_FROM_AFAR = 4_000_000, 32_000_000  # of a pass's results, in memory for each worker
MOST_VECTORS = 3  # that a pass multiplies: what is cut for so many is cut alike for fewer, on the same workers
PIECE_NONZEROS = 1_000_000  # of the rows that travel as one result


def margins(engine: Engine, data: Dataset, w: np.ndarray) -> np.ndarray:
    """Return f_i = z_i . w for all rows, in row order."""
    if w.shape != (data.n_features,):
        raise ValueError(f"w has shape {w.shape}, but the data have {data.n_features} features")
    f = np.empty(data.n_rows)
    products(engine, data, [np.ascontiguousarray(w, dtype=np.float64)], [f])
    return f


def products(engine: Engine, data: Dataset, vectors: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
    """Write z_i . v of all rows into one array a vector: one pass for up to three, holding nothing but ``out``."""
    for _ in certifying_products(engine, data, vectors, out, math.nan):
        pass


def certifying_products(
    engine: Engine, data: Dataset, vectors: Sequence[np.ndarray], out: Sequence[np.ndarray], w_norm: float
) -> Iterator[tuple[slice, Near]]:
    """Write products as ``products`` does, the first vector being w with |w| <= ``w_norm``.

    After each shard yield where its rows stand, and the slacks of those near the margin of w (none if |w| is nan).
    """
    window, row = window_of(engine, data, 8 * MOST_VECTORS), 0
    for piece, near in engine.stream(_shard_products, data.shards, w_norm, *vectors, window=window):
        here = slice(row, row + piece[0].size)
        for array, part in zip(out, piece, strict=True):
            array[here] = part
        row = here.stop
        yield here, near
    assert row == data.n_rows


def window_of(engine: Engine, data: Dataset, row_bytes: int) -> int:
    """Return how many shards' results, of so many bytes a row, may be in memory at a time."""
    most = RESULT_BYTES if engine.backend.in_process else RESULT_BYTES_FROM_AFAR
    return max(2, most // (row_bytes * max(shard.n_rows for shard in data.shards))) * engine.backend.workers


def row_sum(engine: Engine, data: Dataset, coefficients: np.ndarray) -> np.ndarray:
    """Return sum_i a_i z_i, dense, reading only the rows with a_i != 0."""
    shards = [s for s in data.shards if coefficients[s.first_row : s.first_row + s.n_rows].any()]
    if not shards:
        return np.zeros(data.n_features)
    return engine.reduce(_shard_row_sum, shards, _add_all, coefficients).dense()


def cost_sum(engine: Engine, data: Dataset) -> np.ndarray:
    """Return sum_i c_i z_i, dense; the shards' sums stay sparse until the end."""
    total = engine.reduce(_shard_cost_sum, data.shards, _add_all)
    return total.dense()


@dataclass(frozen=True)
class Gathered:
    """Selected rows x_i of a data set in one matrix, with what belongs to them; ``rows`` are their numbers."""

    x: sp.csr_array
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
    x = sp.csr_array((out[2], out[1], out[0]), shape=(n, data.n_features))
    return Gathered(x, *about, np.flatnonzero(selected))


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


def _shard_products(shard: Shard, w_norm: float, *vectors: np.ndarray) -> tuple[tuple[np.ndarray, ...], Near]:
    rows = shard.load()
    matrix = rows.indptr, rows.indices, rows.values, rows.labels
    if len(vectors) == 1:
        found: tuple[np.ndarray, ...] = (csr.margins(*matrix, vectors[0]),)
    else:
        found = csr.margins_two(*matrix, vectors[0], vectors[1])
    if len(vectors) == 3:
        found = *found, csr.margins(*matrix, vectors[2])
    near = Near.none() if math.isnan(w_norm) else near_margin(matrix, rows.norms, vectors[0], found[0], w_norm)
    return found, near


def _shard_row_sum(shard: Shard, coefficients: np.ndarray) -> SparseVector:
    rows = shard.load()
    mine = coefficients[shard.first_row : shard.first_row + shard.n_rows]
    if np.count_nonzero(mine) == mine.size:
        return csr.weighted_sum(rows.indptr, rows.indices, rows.values, mine * rows.labels, rows.n_features)
    chosen = np.flatnonzero(mine)
    indptr, indices, values = _selected(rows, chosen)
    return csr.weighted_sum(indptr, indices, values, mine[chosen] * rows.labels[chosen], rows.n_features)


def _shard_cost_sum(shard: Shard) -> SparseVector:
    rows = shard.load()
    return csr.weighted_sum(rows.indptr, rows.indices, rows.values, rows.costs * rows.labels, rows.n_features)


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
    return *_selected(rows, chosen), rows.labels[chosen], rows.costs[chosen], rows.norms[chosen]


def _selected(rows: Rows, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    nnz = int(np.diff(rows.indptr)[chosen].sum(dtype=np.int64))
    out = np.zeros(chosen.size + 1, np.int32), np.empty(nnz, np.int32), np.empty(nnz, rows.values.dtype)
    csr.copy_rows((rows.indptr, rows.indices, rows.values), chosen, 0, out)
    return out


def _add_all(parts: Sequence[SparseVector]) -> SparseVector:
    return reduce(csr.add_sparse, parts)


def _joined(parts: Sequence[list[tuple[int, int, bool]]]) -> list[tuple[int, int, bool]]:
    return [size for part in parts for size in part]
