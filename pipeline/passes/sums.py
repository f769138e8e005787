"""Sums of rows, sum_i a_i z_i: the shards' sums stay sparse until they are merged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.rows import Rows
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.maths.csr import SparseVector
from pipeline.passes.gather import picked


def row_sum(engine: Engine, data: Dataset, coefficients: np.ndarray) -> np.ndarray:
    """Return sum_i a_i z_i, dense, reading only the rows with a_i != 0."""
    shards = [s for s in data.shards if coefficients[s.first_row : s.first_row + s.n_rows].any()]
    if not shards:
        return np.zeros(data.n_features)
    return engine.reduce(_shard_row_sum, shards, _add_all, coefficients).dense()


def class_weighted_sum(engine: Engine, data: Dataset, weights: tuple[float, float]) -> np.ndarray:
    """Return sum_i c_i z_i, dense, the costs of negative and positive rows being multiplied by ``weights``."""
    shards = [s for s in data.shards if s.n_rows]
    return engine.reduce(_shard_weighted_sum, shards, _add_all, weights).dense()


def cost_sum(engine: Engine, data: Dataset) -> np.ndarray:
    """Return sum_i c_i z_i, dense; the shards' sums stay sparse until the end."""
    data.expect_two_classes("a sum of y_i x_i")
    total = engine.reduce(_shard_cost_sum, data.shards, _add_all)
    return total.dense()


def _shard_row_sum(shard: Shard, coefficients: np.ndarray) -> SparseVector:
    return _sum_of(shard.load(), coefficients[shard.first_row : shard.first_row + shard.n_rows])


def _shard_weighted_sum(shard: Shard, weights: tuple[float, float]) -> SparseVector:
    rows = shard.load()
    return _sum_of(rows, rows.costs * np.where(rows.labels == 1, weights[1], weights[0]))


def _sum_of(rows: Rows, mine: np.ndarray) -> SparseVector:
    if rows.n_features <= rows.indices.size:  # no more to write than there is to read
        return csr.dense_sum(rows.indptr, rows.indices, rows.values, mine * rows.labels, rows.n_features)
    if np.count_nonzero(mine) == mine.size:
        return csr.weighted_sum(rows.indptr, rows.indices, rows.values, mine * rows.labels, rows.n_features)
    chosen = np.flatnonzero(mine)
    indptr, indices, values = picked((rows.indptr, rows.indices, rows.values), chosen)
    return csr.weighted_sum(indptr, indices, values, mine[chosen] * rows.labels[chosen], rows.n_features)


def _shard_cost_sum(shard: Shard) -> SparseVector:
    rows = shard.load()
    return csr.weighted_sum(rows.indptr, rows.indices, rows.values, rows.costs * rows.labels, rows.n_features)


def _add_all(parts: Sequence[SparseVector]) -> SparseVector:
    return reduce(csr.add_sparse, parts)
