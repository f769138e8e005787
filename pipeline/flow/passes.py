"""The passes over a data set that everything else is made of: margins, sums of rows, gathering rows.

Each is a function of one shard, a merge in shard order, and the engine that runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import scipy.sparse as sp

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.rows import Rows
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.maths.csr import SparseVector

RESULT_BYTES = 4_000_000  # of a pass's results, in memory for each worker


def margins(engine: Engine, data: Dataset, w: np.ndarray) -> np.ndarray:
    """Return f_i = z_i . w for all rows, in row order."""
    if w.shape != (data.n_features,):
        raise ValueError(f"w has shape {w.shape}, but the data have {data.n_features} features")
    f = engine.reduce(_shard_margins, data.shards, _concatenate, np.ascontiguousarray(w, dtype=np.float64))
    assert f.shape == (data.n_rows,)
    return f


def products(engine: Engine, data: Dataset, vectors: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
    """Write z_i . v of all rows into one array a vector: one pass for up to three, holding nothing but ``out``."""
    together = max(2, RESULT_BYTES // (8 * len(vectors) * max(shard.n_rows for shard in data.shards)))
    window = together * engine.backend.workers
    row = 0
    for piece in engine.stream(_shard_products, data.shards, *vectors, window=window):
        for array, part in zip(out, piece, strict=True):
            array[row : row + part.size] = part
        row += piece[0].size
    assert row == data.n_rows


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


def gather(engine: Engine, data: Dataset, selected: np.ndarray, size: tuple[int, bool] | None = None) -> Gathered:
    """Gather the rows where the boolean mask ``selected`` is true, in row order.

    The result is sized exactly by its number of nonzeros and whether values need 64 bits, both from a first look unless
    ``size`` tells; the rows are then copied into it as shards come in.
    """
    if selected.shape != (data.n_rows,) or selected.dtype != np.bool_:
        raise ValueError(f"the mask must be boolean with {data.n_rows} entries")
    shards = [s for s in data.shards if selected[s.first_row : s.first_row + s.n_rows].any()]
    rows = np.flatnonzero(selected)
    if size is None:
        size = engine.reduce(_shard_size, shards, _total_size, selected) if shards else (0, False)
    nnz, wide = size
    index_type = np.int32 if nnz <= np.iinfo(np.int32).max else np.int64
    indptr, indices = np.zeros(rows.size + 1, index_type), np.empty(nnz, index_type)
    values = np.empty(nnz, np.float64 if wide else np.float32)
    labels, costs, norms = np.empty(rows.size, np.int8), np.empty(rows.size), np.empty(rows.size)
    row = entry = 0
    for piece in stream_rows(engine, data, selected):
        stop, end = row + piece[3].size, entry + piece[1].size
        indptr[row + 1 : stop + 1] = piece[0][1:] + index_type(entry)
        indices[entry:end], values[entry:end] = piece[1], piece[2]
        labels[row:stop], costs[row:stop], norms[row:stop] = piece[3:]
        row, entry = stop, end
    assert (row, entry) == (rows.size, nnz)
    x = sp.csr_array((values, indices, indptr), shape=(rows.size, data.n_features))
    return Gathered(x, labels, costs, norms, rows)


def _shard_margins(shard: Shard, w: np.ndarray) -> np.ndarray:
    rows = shard.load()
    return csr.margins(rows.indptr, rows.indices, rows.values, rows.labels, w)


def stream_rows(engine: Engine, data: Dataset, selected: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the selected rows, shard after shard, as indptr, indices, values, labels, costs, norms: copies."""
    shards = [s for s in data.shards if selected[s.first_row : s.first_row + s.n_rows].any()]
    return engine.stream(_shard_rows, shards, selected)


def _shard_products(shard: Shard, *vectors: np.ndarray) -> tuple[np.ndarray, ...]:
    rows = shard.load()
    matrix = rows.indptr, rows.indices, rows.values, rows.labels
    if len(vectors) == 1:
        return (csr.margins(*matrix, vectors[0]),)
    found = csr.margins_two(*matrix, vectors[0], vectors[1])
    return found if len(vectors) == 2 else (*found, csr.margins(*matrix, vectors[2]))


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


def _shard_size(shard: Shard, selected: np.ndarray) -> tuple[int, bool]:
    rows = shard.load()
    mine = selected[shard.first_row : shard.first_row + shard.n_rows]
    return int(np.diff(rows.indptr)[mine].sum(dtype=np.int64)), rows.values.dtype == np.float64


def _shard_rows(shard: Shard, selected: np.ndarray) -> tuple[np.ndarray, ...]:
    rows = shard.load()
    chosen = np.flatnonzero(selected[shard.first_row : shard.first_row + shard.n_rows])
    return *_selected(rows, chosen), rows.labels[chosen], rows.costs[chosen], rows.norms[chosen]


def _selected(rows: Rows, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    nnz = int(np.diff(rows.indptr)[chosen].sum(dtype=np.int64))
    indptr = np.zeros(chosen.size + 1, np.int32)
    indices, values = np.empty(nnz, np.int32), np.empty(nnz, rows.values.dtype)
    csr.select_rows(rows.indptr, rows.indices, rows.values, chosen, indptr, indices, values)
    return indptr, indices, values


def _concatenate(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts)


def _add_all(parts: Sequence[SparseVector]) -> SparseVector:
    return reduce(csr.add_sparse, parts)


def _total_size(parts: Sequence[tuple[int, bool]]) -> tuple[int, bool]:
    return sum(nnz for nnz, _ in parts), any(wide for _, wide in parts)
