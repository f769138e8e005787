"""Kernel values, a block of columns at a time: K(x_i, x_j) for all rows i of a CSR matrix and some columns j.

The columns' rows are laid out densely over the features that any of them has, so that a nonzero of row i is multiplied
with all columns at once; then distances and exponentials, column by column. Every x_i . x_j is added up in ascending
order of the features, whatever the block (a zero adds nothing): a value has the same bits in every block, on every
worker, from either side.

exp(x), x <= 0, is 2^k (1 + r + r^2 q(r)) with k = rint(x/log 2) and r = x - k log 2 in two parts (Cody and Waite), q
being Taylor's polynomial up to r^13/13!, whose rest is below 2^-57 for |r| <= log(2)/2. Its rounding is that of
r (u/2), of the last addition (u) and of r^2 q(r) (less than u): below 4 u, which tests look at. No operation depends on
the machine's vectors, nor on its library of functions.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.jit import alike, kernel
from pipeline.maths.kernel import Rbf

BLOCK = 64  # columns at a time: 8 cache lines of products a row
DENSE_CELLS = 4_000_000  # of a block, at most, if it is of more than one column
TILE = 512  # rows at a time: distances and exponentials of a column stay in the first cache
_LOG2E, _MAGIC = 1.4426950408889634, 6755399441055744.0  # 1.5 2^52: adding it rounds to a whole number
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # 33 bits, so that k times it is exact
_LEAST = -708.0  # there and below, where they would be subnormal, values are 0, which is nothing beside u
_Q = tuple(1.0 / float(np.prod(np.arange(1.0, k + 1.0))) for k in range(13, 1, -1))  # 1/13! to 1/2!


@kernel
def squares_of(indptr, values, out):  # type: ignore[no-untyped-def]
    """Write |x_i|^2, added up as products are."""
    for i in range(out.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            x = np.float64(values[k])
            total += x * x
        out[i] = total


@kernel
def _exponential(x, t, t_bits, p, p_bits, n):  # type: ignore[no-untyped-def]
    """Replace x by exp(x) for -708 < x <= 0, and by 0 for x = -708: rows that are far from all others have no sum of
    what is cut off for a score. The bits of t hold k, those of p get it added to their exponent.
    """
    for i in range(n):
        t[i] = x[i] * _LOG2E + _MAGIC
    for i in range(n):
        k = t[i] - _MAGIC
        r = (x[i] - k * _LN2_HIGH) - k * _LN2_LOW
        q = _Q[0]
        q = q * r + _Q[1]
        q = q * r + _Q[2]
        q = q * r + _Q[3]
        q = q * r + _Q[4]
        q = q * r + _Q[5]
        q = q * r + _Q[6]
        q = q * r + _Q[7]
        q = q * r + _Q[8]
        q = q * r + _Q[9]
        q = q * r + _Q[10]
        q = q * r + _Q[11]
        p[i] = 1.0 + (r + r * r * q)
    for i in range(n):
        p_bits[i] += t_bits[i] << 52
    for i in range(n):
        x[i] = p[i] if x[i] > _LEAST else 0.0


@kernel
def _block(rows, squares, place, dense, column_squares, shape, out, slots):  # type: ignore[no-untyped-def]
    """Write the kernel values of all rows with a block of columns into out[slots_j]."""
    indptr, indices, values = rows
    gamma, shift = shape
    n, m = squares.size, slots.size
    products = np.empty((TILE, dense.shape[1]))
    x, t, p = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    t_bits, p_bits = t.view(np.int64), p.view(np.int64)
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        for i in range(start, stop):
            line = products[i - start]
            line[:] = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                at = place[indices[k]]
                if at >= 0:
                    value, other = np.float64(values[k]), dense[at]
                    for j in range(m):
                        line[j] += value * other[j]
        for j in range(m):
            for i in range(stop - start):
                far = (squares[start + i] + column_squares[j]) - 2.0 * products[i, j]
                far = -gamma * max(far, 0.0)
                x[i] = max(far, _LEAST)
            _exponential(x, t, t_bits, p, p_bits, stop - start)
            column = out[slots[j]]
            for i in range(stop - start):
                column[start + i] = x[i] + shift


@kernel
def _lay_out(indptr, indices, values, first, stop, place, dense):  # type: ignore[no-untyped-def]
    """Number the features of some columns in ``place``, lay their values out in ``dense``; return how many there are.

    With a ``dense`` of no rows, only count and number.
    """
    count = 0
    for j in range(first, stop):
        for k in range(indptr[j], indptr[j + 1]):
            at = place[indices[k]]
            if at < 0:
                at = count
                place[indices[k]] = at
                count += 1
            if dense.shape[0]:
                dense[at, j - first] = values[k]
    return count


@kernel
def _clear(indptr, indices, first, stop, place):  # type: ignore[no-untyped-def]
    for k in range(indptr[first], indptr[stop]):
        place[indices[k]] = -1


class Columns:
    """Rows x_j, as CSR arrays with |x_j|^2, whose kernel values with others are asked for."""

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, values: np.ndarray) -> None:
        self.indptr, self.indices, self.values = indptr, indices, values
        self.squares = np.empty(indptr.size - 1)
        squares_of(*alike(indptr, values), self.squares)


def kernel_columns(
    kernel: Rbf,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    squares: np.ndarray,
    n_features: int,
    columns: Columns,
    wanted: np.ndarray,
    out: np.ndarray,
    slots: np.ndarray,
) -> None:
    """Write K(x_i, x_j) of all rows (indptr, indices, values; |x_i|^2) and the ``wanted`` columns to out[slots]."""
    if not wanted.size:
        return
    given = tuple(alike(*rows))
    place = np.full(n_features, -1, np.int32)
    nothing = np.empty((0, 0))
    for first, stop in _blocks(np.diff(columns.indptr)[wanted]):
        some = wanted[first:stop]
        part = _taken(columns, some)
        count = _lay_out(*part, 0, some.size, place, nothing)
        dense = np.zeros((count, some.size))
        _lay_out(*part, 0, some.size, place, dense)
        shape = kernel.gamma, kernel.shift
        _block(given, squares, place, dense, columns.squares[some], shape, out, slots[first:stop])
        _clear(part[0], part[1], 0, some.size, place)


def _blocks(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Cut columns of these lengths into blocks: fewer at a time where laid out densely they would take much memory."""
    first, cells = 0, 0
    for stop, length in enumerate(lengths.tolist(), start=1):
        cells += length
        following = int(lengths[stop]) if stop < lengths.size else 0
        size = stop - first
        if size == BLOCK or stop == lengths.size or (cells + following) * (size + 1) > DENSE_CELLS:
            yield first, stop
            first, cells = stop, 0


def _taken(columns: Columns, some: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return some columns as CSR arrays of their own."""
    lengths = np.diff(columns.indptr)[some]
    indptr = np.zeros(some.size + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    source = np.repeat(columns.indptr[some].astype(np.int64) - indptr[:-1], lengths) + np.arange(indptr[-1])
    return indptr, columns.indices[source], columns.values[source].astype(np.float64)
