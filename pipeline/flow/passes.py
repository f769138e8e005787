"""The passes over a data set that everything else is made of: margins, the sum of c_i z_i, statistics, gathering rows.

Each is a function of one shard, a merge in shard order, and the engine that runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import scipy.sparse as sp

from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.maths.csr import SparseVector


def margins(engine: Engine, data: Dataset, w: np.ndarray) -> np.ndarray:
    """Return f_i = z_i . w for all rows, in row order."""
    if w.shape != (data.n_features,):
        raise ValueError(f"w has shape {w.shape}, but the data have {data.n_features} features")
    f = engine.reduce(_shard_margins, data.shards, _concatenate, np.ascontiguousarray(w, dtype=np.float64))
    assert f.shape == (data.n_rows,)
    return f


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


def gather(engine: Engine, data: Dataset, selected: np.ndarray) -> Gathered:
    """Gather the rows where the boolean mask ``selected`` is true, in row order.

    A first look at the row lengths sizes the result exactly; the rows are then copied into it as shards come in.
    """
    if selected.shape != (data.n_rows,) or selected.dtype != np.bool_:
        raise ValueError(f"the mask must be boolean with {data.n_rows} entries")
    shards = [s for s in data.shards if selected[s.first_row : s.first_row + s.n_rows].any()]
    rows = np.flatnonzero(selected)
    nnz, wide = engine.reduce(_shard_size, shards, _total_size, selected) if shards else (0, False)
    index_type = np.int32 if nnz <= np.iinfo(np.int32).max else np.int64
    indptr, indices = np.zeros(rows.size + 1, index_type), np.empty(nnz, index_type)
    values = np.empty(nnz, np.float64 if wide else np.float32)
    labels, costs, norms = np.empty(rows.size, np.int8), np.empty(rows.size), np.empty(rows.size)
    row = entry = 0
    for piece in engine.stream(_shard_rows, shards, selected):
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
    nnz = int(np.diff(rows.indptr)[chosen].sum(dtype=np.int64))
    indptr = np.zeros(chosen.size + 1, np.int32)
    indices, values = np.empty(nnz, np.int32), np.empty(nnz, rows.values.dtype)
    csr.select_rows(rows.indptr, rows.indices, rows.values, chosen, indptr, indices, values)
    return indptr, indices, values, rows.labels[chosen], rows.costs[chosen], rows.norms[chosen]


def _concatenate(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts)


def _add_all(parts: Sequence[SparseVector]) -> SparseVector:
    return reduce(csr.add_sparse, parts)


def _total_size(parts: Sequence[tuple[int, bool]]) -> tuple[int, bool]:
    return sum(nnz for nnz, _ in parts), any(wide for _, wide in parts)
