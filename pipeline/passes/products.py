"""Products of all rows with a few vectors: margins f_i = z_i . w, and what a certificate needs of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.rows import Rows
from pipeline.engine.engine import Engine
from pipeline.engine.together import merges
from pipeline.maths import csr
from pipeline.maths.slack import Near, near_margin
from pipeline.passes.hot import HotRows

RESULT_BYTES, RESULT_BYTES_FROM_AFAR = 4_000_000, 32_000_000  # of a pass's results, in memory for each worker
COLUMNS = 8  # of vectors side by side, that the loop over them takes at a time
MOST_VECTORS = 4  # that a pass multiplies: what is cut for so many is cut alike for fewer, on the same workers


def margins(engine: Engine, data: Dataset, w: np.ndarray) -> np.ndarray:
    """Return f_i = z_i . w for all rows, in row order."""
    data.expect_two_classes("a margin y_i (x_i . w)")
    if w.shape != (data.n_features,):
        raise ValueError(f"w has shape {w.shape}, but the data have {data.n_features} features")
    f = np.empty(data.n_rows)
    products(engine, data, [np.ascontiguousarray(w, dtype=np.float64)], [f])
    return f


def products(engine: Engine, data: Dataset, vectors: Sequence[np.ndarray], out: Sequence[np.ndarray]) -> None:
    """Write z_i . v of all rows into one array a vector: one pass for up to four, holding nothing but ``out``."""
    for _ in certifying_products(engine, data, vectors, out, math.nan):
        pass


def certifying_products(
    engine: Engine,
    data: Dataset,
    vectors: Sequence[np.ndarray],
    out: Sequence[np.ndarray],
    w_norm: float,
    hot: HotRows | None = None,
) -> Iterator[tuple[slice, Near]]:
    """Write products as ``products`` does, the first vector being w with |w| <= ``w_norm``.

    After each shard yield where its rows stand, and the slacks of those near the margin of w (none if |w| is nan).
    ``hot`` gets the rows that it expects.
    """
    window, row = window_of(engine, data, 8 * MOST_VECTORS), 0
    hot = hot if hot is not None and hot.expected else None
    function = shard_products if hot is None else partial(_copied_and_multiplied, hot)
    for piece, near in engine.stream(function, data.shards, w_norm, *vectors, window=window):
        here = slice(row, row + piece[0].size)
        for array, part in zip(out, piece, strict=True):
            array[here] = part
        row = here.stop
        yield here, near
    assert row == data.n_rows
    if hot is not None:
        hot.arrived()


def some_products(
    engine: Engine,
    data: Dataset,
    vectors: Sequence[np.ndarray],
    chosen: np.ndarray,
    w_norm: float,
    hot: HotRows | None,
) -> Iterator[tuple[np.ndarray, tuple[np.ndarray, ...], Near]]:
    """Yield the numbers of the chosen rows, their products and the slacks of those near the margin of w, by shard.

    ``chosen`` is a mask of all rows; no other rows are read, and those that are ``hot`` not from their shards. Shards
    come in their order, or backwards.
    """
    shards = [s for s in data.shards if chosen[s.first_row : s.first_row + s.n_rows].any()]
    window = window_of(engine, data, 8 * MOST_VECTORS)
    if hot is None or not hot.bands:
        yield from engine.stream(_shard_some, shards, w_norm, chosen, *vectors, window=window)
    else:
        yield from engine.stream(partial(_hot_some, hot), hot.turned(shards), w_norm, chosen, *vectors, window=window)


def window_of(engine: Engine, data: Dataset, row_bytes: int) -> int:
    """Return how many shards' results, of so many bytes a row, may be in memory at a time."""
    most = RESULT_BYTES if engine.backend.in_process else RESULT_BYTES_FROM_AFAR
    return max(2, most // (row_bytes * max(shard.n_rows for shard in data.shards))) * engine.backend.workers


Found = tuple[tuple[np.ndarray, ...], Near]


def shard_products(shard: Shard, w_norm: float, *vectors: np.ndarray) -> Found:
    """Return the products of a shard's rows with some vectors, and the slacks of those near the margin of the first."""
    return _completed(shard.load(), w_norm, vectors, ())


def _copied_and_multiplied(hot: HotRows, shard: Shard, w_norm: float, *vectors: np.ndarray) -> Found:
    found = shard_products(shard, w_norm, *vectors)
    hot.copy(shard)  # while its pages are at hand
    return found


def products_of_some(shard: Shard, some: np.ndarray, w_norm: float, *vectors: np.ndarray) -> Found:
    """Return the same of some of its rows, by their numbers there, in whose order slacks are counted."""
    return _completed(shard.load(), w_norm, vectors, (), some)


def _shard_some(
    shard: Shard, w_norm: float, chosen: np.ndarray, *vectors: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...], Near]:
    some = np.flatnonzero(chosen[shard.first_row : shard.first_row + shard.n_rows])
    return some + shard.first_row, *products_of_some(shard, some, w_norm, *vectors)


def _hot_some(
    hot: HotRows, shard: Shard, w_norm: float, chosen: np.ndarray, *vectors: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, ...], Near]:
    """Return the same, from wherever the rows are."""
    some = np.flatnonzero(chosen[shard.first_row : shard.first_row + shard.n_rows])
    found, near = tuple(np.empty(some.size) for _ in vectors), [(0, Near.none())]
    for rows, numbers, places in hot.sources(shard, some):
        part, slacks = _completed(rows, w_norm, vectors, (), numbers)
        for array, products in zip(found, part, strict=True):
            array[places] = products
        near.append((0, Near(places[slacks.rows], slacks.slack, slacks.error)))
    return some + shard.first_row, found, Near.joined(near).ordered()


def _completed(
    rows: Rows,
    w_norm: float,
    vectors: Sequence[np.ndarray],
    found: tuple[np.ndarray, ...],
    some: np.ndarray | None = None,
) -> Found:
    """Add what is missing to the products of all rows, or of some, with the first vectors: two at a time."""
    matrix = rows.indptr, rows.indices, rows.values, rows.labels
    while len(found) + 1 < len(vectors):
        found = *found, *csr.margins_two(matrix, vectors[len(found)], vectors[len(found) + 1], some)
    if len(found) < len(vectors):
        found = *found, csr.row_margins(matrix, vectors[-1], some)
    if math.isnan(w_norm):
        return found, Near.none()
    norms = rows.norms if some is None else rows.norms[some]
    return found, near_margin(matrix, norms, vectors[0], found[0], w_norm, some)


@merges(shard_products)
def _for_several(asked: list[tuple[Any, ...]]) -> tuple[_SeveralProducts, tuple[np.ndarray, ...]]:
    """Lay the pairs of vectors side by side, so that a row's entries find those of all members in one place.

    Columns are filled up to a multiple of eight, which is what the loop over them takes at a time; fewer than eight are
    quicker pair by pair (measured: 16 columns take 0.3 to 0.7 of the time of 8 pairs, 4 columns up to 3 times that of
    2 pairs).
    """
    norms, vectors = [ask[0] for ask in asked], [ask[1:] for ask in asked]
    pairs = [pair for pair in vectors if len(pair) > 1]
    width = -(-2 * len(pairs) // COLUMNS) * COLUMNS if 2 * len(pairs) >= COLUMNS else 0
    beside = np.zeros((pairs[0][0].size, width)) if width else np.zeros((0, 0))
    for k, pair in enumerate(pairs if width else ()):
        beside[:, 2 * k], beside[:, 2 * k + 1] = pair[:2]
    counts = [len(each) for each in vectors]
    return _SeveralProducts(norms, counts), (beside, *(vector for each in vectors for vector in each))


class _SeveralProducts:
    """The products of several members' shards, which are the same rows with labels of their own."""

    def __init__(self, norms: list[float], counts: list[int]) -> None:
        self.norms, self.counts = norms, counts

    def __call__(self, shards: Sequence[Shard], beside: np.ndarray, *vectors: np.ndarray) -> list[Found]:
        """Return each member's products, with the bits that they have alone."""
        rows, found, first = shards[0].load(), [], 0
        products = csr.products_of_pairs(rows.indptr, rows.indices, rows.values, beside) if beside.size else None
        column = 0
        for shard, w_norm, count in zip(shards, self.norms, self.counts, strict=True):
            mine = vectors[first : first + count]
            first += count
            if products is None or count == 1:
                found.append(shard_products(shard, w_norm, *mine))
                continue
            own = shard.load()
            pair = own.labels * products[column], own.labels * products[column + 1]
            found.append(_completed(own, w_norm, mine, pair))
            column += 2
        return found
