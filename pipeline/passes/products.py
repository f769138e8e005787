"""Products of all rows with a few vectors: margins f_i = z_i . w, and what a certificate needs of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.maths.slack import Near, near_margin

RESULT_BYTES, RESULT_BYTES_FROM_AFAR = 4_000_000, 32_000_000  # of a pass's results, in memory for each worker
MOST_VECTORS = 3  # that a pass multiplies: what is cut for so many is cut alike for fewer, on the same workers


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


def _shard_products(shard: Shard, w_norm: float, *vectors: np.ndarray) -> tuple[tuple[np.ndarray, ...], Near]:
    rows = shard.load()
    matrix = rows.indptr, rows.indices, rows.values, rows.labels
    if len(vectors) == 1:
        found: tuple[np.ndarray, ...] = (csr.row_margins(*matrix, vectors[0]),)
    else:
        found = csr.margins_two(*matrix, vectors[0], vectors[1])
    if len(vectors) == 3:
        found = *found, csr.row_margins(*matrix, vectors[2])
    near = Near.none() if math.isnan(w_norm) else near_margin(matrix, rows.norms, vectors[0], found[0], w_norm)
    return found, near
