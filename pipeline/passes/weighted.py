"""Norms of rows whose features are weighted, |z_i/D|, for ``maths.estimate``."""

from __future__ import annotations

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.jit import alike
from pipeline.maths import csr
from pipeline.maths.estimate import LEAST_SQUARE, feature_weights
from pipeline.maths.rounding import gamma
from pipeline.passes.products import window_of

SAMPLED_ROWS = 20_000  # whose features are looked at: D is a guess, and any would be right


def sampled_weights(data: Dataset) -> tuple[np.ndarray, int]:
    """Return D, from the first rows of every shard, and how many nonzeros were read for it."""
    squares, rows, read = np.zeros(data.n_features), 0, 0
    each = -(-SAMPLED_ROWS // len(data.shards))
    for shard in data.shards:
        some = shard.load().part(0, min(each, shard.n_rows))
        csr.add_squares(*alike(some.indices, some.values), squares)
        rows, read = rows + some.n_rows, read + some.nnz
    return feature_weights(squares, rows), read


def weighted_norms(engine: Engine, data: Dataset, weights: np.ndarray, out: np.ndarray) -> None:
    """Write |z_i/D| of all rows, rounded up; infinity where squares are beyond float64's range."""
    inverse, row = inverse_squares(weights), 0
    for norms in engine.stream(shard_norms, data.shards, inverse, window=window_of(engine, data, 8)):
        out[row : row + norms.size] = norms
        row += norms.size
    assert row == data.n_rows


def inverse_squares(weights: np.ndarray) -> np.ndarray:
    """Return 1/D^2."""
    return 1.0 / (weights * weights)


def shard_norms(shard: Shard, inverse: np.ndarray) -> np.ndarray:
    """Return |z_i/D| of a shard's rows, rounded up, from 1/D^2."""
    rows = shard.load()
    squares = csr.weighted_squares((rows.indptr, rows.indices, rows.values, rows.labels), inverse)
    lengths = np.diff(rows.indptr)
    plain = (squares > LEAST_SQUARE) & np.isfinite(squares)
    norms = np.sqrt(np.where(plain, squares, 0.0)) * (1.0 + gamma(lengths + 4.0))
    return np.where(plain, norms, np.where(lengths > 0, np.inf, 0.0))
