"""Margins of rows in a kernel's space, many models at once, in twice the precision; for ``verify``.

    f_i = y_i sum_j a_j (exp(-gamma |x_i - x_j|^2) + B^2),    a_j = y_j alpha_j,

a block of kernel values (``rbf``) times the coefficients of all models, so that every value is made once for all of
them. Rows j are read from the shards, block after block; nothing is gathered. The part of B comes last: B^2 and
S = sum_j a_j in two parts each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass
from pipeline.verify import twofold
from pipeline.verify.rbf import rbf_values, row_squares, share_of

BLOCK = 256  # rows either way: products in two parts and their sizes take 1.5 MB
DENSE = 2_000_000  # numbers of a block of rows j laid out over the features of the rows i
GONE = -1  # the number of a feature that is no part of a distance: the bias column, an unknown name
PIECE_ROWS = 2048  # rows i of a task

Piece = tuple[Shard, int, int]
Matrix = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class KernelRows:
    """The rows j of a kernel: where they are, what their features are called here, and the longest and largest row."""

    shards: tuple[Shard, ...]
    numbers: np.ndarray
    gamma: float
    bias: float
    longest: int
    largest: float


class RowMargins(NamedTuple):
    """f_i of some rows (by model) in two parts, the sum of its terms' sizes, and how far terms are off, as a share.

    ``norms`` are |x_i| without the bias.
    """

    high: np.ndarray
    low: np.ndarray
    size: np.ndarray
    share: np.ndarray
    norms: np.ndarray


def pieces_of(data: Dataset) -> list[Piece]:
    """Cut the rows into tasks."""
    cuts = ((shard, first) for shard in data.shards for first in range(0, shard.n_rows, PIECE_ROWS))
    return [(shard, first, min(shard.n_rows, first + PIECE_ROWS)) for shard, first in cuts]


def own_numbers(data: Dataset) -> np.ndarray:
    """Return the numbers of a data set's own features, the bias column being none."""
    numbers = np.arange(data.n_features)
    numbers[data.own_features :] = GONE
    return numbers


def sizes_of(shard: Shard, numbers: np.ndarray) -> tuple[int, float]:
    """Return the length of the longest row of a shard, and the largest norm."""
    indptr, _, values = renumbered(shard.load(), slice(None), numbers)
    return int(np.diff(indptr).max(initial=0)), float(twofold.row_norms(indptr, values).max(initial=0.0))


def totals(coefficients: np.ndarray) -> np.ndarray:
    """Return S of every model, in two parts; the second is what correct rounding has left of the first."""
    found = np.full((2, coefficients.shape[1]), math.inf)
    for k, column in enumerate(coefficients.T):
        terms = column[column != 0.0].tolist()
        if not math.isfinite(sum(map(abs, terms))):
            continue
        found[0, k] = math.fsum(terms)
        found[1, k] = math.fsum([*terms, -found[0, k]])
    return found


def margins(
    rows: Rows, some: slice, numbers: np.ndarray, kernel: KernelRows, coefficients: np.ndarray, sums: np.ndarray
) -> RowMargins:
    """Return the margins of some rows, whose features have these ``numbers``; ``coefficients`` are a_j by model."""
    indptr, indices, values = renumbered(rows, some, numbers)
    n, models = indptr.size - 1, coefficients.shape[1]
    y, norms = rows.labels[some].astype(np.float64), twofold.row_norms(indptr, values)
    high, low, size = (np.zeros((n, models)) for _ in range(3))
    squares = row_squares(indptr, values)
    for first in range(0, n, BLOCK):
        part = slice(first, min(n, first + BLOCK))
        entries = slice(indptr[part.start], indptr[part.stop])
        mine = indptr[part.start : part.stop + 1] - indptr[part.start], indices[entries], values[entries]
        place, features = _placed(mine[1], 1 + max(int(numbers.max()), int(kernel.numbers.max())))
        x = mine[0], place[mine[1]], mine[2], np.ones(part.stop - first)
        for at, block in _blocks(kernel, coefficients, max(1, min(BLOCK, DENSE // max(1, features)))):
            k = _values(x, squares[part], block, place, features, kernel.gamma)
            ends = np.arange(k.shape[0] + 1) * k.shape[1]
            places = np.tile(np.arange(k.shape[1], dtype=np.int32), k.shape[0])
            twofold.products((ends, places, k.ravel(), y[part]), coefficients[at], high[part], low[part], size[part])
    if kernel.bias:
        _add_bias(kernel.bias, y, sums, high, low, size)
    return RowMargins(high, low, size, share_of(kernel.gamma, kernel.longest, norms, kernel.largest), norms)


def renumbered(rows: Rows, some: slice, numbers: np.ndarray) -> Matrix:
    """Return some rows as CSR arrays in float64 with other numbers for their features, those that are GONE left out."""
    first, stop, _ = some.indices(rows.n_rows)
    entries = slice(rows.indptr[first], rows.indptr[stop])
    indices = numbers[rows.indices[entries]]
    kept = indices != GONE
    before = np.zeros(indices.size + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    indptr = before[rows.indptr[first : stop + 1] - rows.indptr[first]]
    return indptr, indices[kept].astype(np.int32), rows.values[entries][kept].astype(np.float64)


def _placed(indices: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """Number the features that occur: return their places by feature (GONE elsewhere), and how many there are."""
    place = np.full(size, GONE, np.int32)
    place[indices] = 0
    occur = np.flatnonzero(place == 0)
    place[occur] = np.arange(occur.size)
    return place, occur.size


def _blocks(kernel: KernelRows, coefficients: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, Matrix]]:
    """Yield the rows j that any model has, block by block: their numbers, and CSR arrays."""
    for shard in kernel.shards:
        used = (coefficients[shard.first_row : shard.first_row + shard.n_rows] != 0.0).any(axis=1)
        rows = shard.load() if used.any() else None
        for first in range(0, shard.n_rows, size):
            part = slice(first, min(shard.n_rows, first + size))
            if rows is not None and used[part].any():
                yield np.arange(part.start, part.stop) + shard.first_row, renumbered(rows, part, kernel.numbers)


def _values(
    x: tuple[np.ndarray, ...], squares: np.ndarray, block: Matrix, place: np.ndarray, features: int, gamma: float
) -> np.ndarray:
    """Return exp(-gamma |x_i - x_j|^2) of some rows and a block of others."""
    indptr, indices, values = block
    m = indptr.size - 1
    dense = np.zeros((features, m))
    at, column = place[indices], np.repeat(np.arange(m), np.diff(indptr))
    met = at != GONE
    dense[at[met], column[met]] = values[met]
    high, low, size = (np.zeros((squares.shape[0], m)) for _ in range(3))
    twofold.products(x, dense, high, low, size)
    rbf_values(squares, row_squares(indptr, values), high, low, gamma)
    return high


def _add_bias(
    bias: float, y: np.ndarray, sums: np.ndarray, high: np.ndarray, low: np.ndarray, size: np.ndarray
) -> None:
    """Add y_i B^2 S: B^2 is p + e, S is s + t, and p s + p t + e s is all of it but u^2 of its size."""
    p, e = twofold.product(bias, bias)
    n = y.size
    rows = np.arange(n + 1) * 3, np.tile(np.array([0, 1, 0], np.int32), n), np.tile(np.array([p, p, e]), n), y
    twofold.products(rows, sums, high, low, size)


def merged_sizes(found: Sequence[tuple[int, float]]) -> tuple[int, float]:
    """Return the largest of both over all shards."""
    return max(length for length, _ in found), max(norm for _, norm in found)
