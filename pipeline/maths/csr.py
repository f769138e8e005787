"""Sparse rows times vectors: the loops that every pass spends its time in. Numba, float64 sums, no GIL."""

from __future__ import annotations

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import alike, inline, kernel, prefetch

# A vector that a core's own cache does not hold is asked for some nonzeros ahead. CPU nanoseconds a nonzero without and
# with that, by the size of w: 0.8 MB (imdb) 2.0 and 2.1, 2.6 MB (url-like at 0.1) 2.1 and 2.1, 13 MB (news20) 3.2 and
# 3.0, 80 MB (kdda-like at 0.5) 6.0 to 7.4 and 3.0 to 3.4, of two vectors 10.2 to 11.4 and 6.2 to 7.1; 32 and 64
# nonzeros ahead 4.8 and 3.9 there.
FAR_VECTOR, AHEAD = 1 << 20, 128  # entries
# A sum over the features that occur is at another place for each nonzero: kdda-like 14.1 ns a nonzero with places found
# as they are needed, 6.2, 4.7 and 5.9 with 16, 32 and 64 of them ahead.
PLACES_AHEAD = 32
_U1, _U2, _U3, _U4, _U6, _U63 = (np.uint64(k) for k in (1, 2, 3, 4, 6, 63))


@inline
def _ask_for(w, indices, k):  # type: ignore[no-untyped-def]
    """Ask for the entries of w that four nonzeros from the k-th on are to be multiplied with."""
    if k + _U4 <= np.uint64(indices.size):
        for j in range(k, k + _U4):
            prefetch(w, np.uint64(indices[j]))


@kernel
def _row_products(starts, ends, indices, values, scale, w, ahead, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        a = b = c = d = 0.0
        start, end = np.uint64(starts[i]), np.uint64(ends[i])
        whole = start + (((end - start) >> _U2) << _U2)
        for k in range(start, whole, _U4):
            if ahead:
                _ask_for(w, indices, k + np.uint64(ahead))
            a += np.float64(values[k]) * w[indices[k]]
            b += np.float64(values[k + _U1]) * w[indices[k + _U1]]
            c += np.float64(values[k + _U2]) * w[indices[k + _U2]]
            d += np.float64(values[k + _U3]) * w[indices[k + _U3]]
        for k in range(whole, end):
            a += np.float64(values[k]) * w[indices[k]]
        out[i] = scale[i] * ((a + b) + (c + d))


Matrix = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # indptr, indices, values, labels


def row_margins(matrix: Matrix, w: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
    """Return f_i = z_i . w = y_i (x_i . w) for every row, or for some by number, in O(nonzeros).

    Each row is four interleaved float64 sums (a single one waits for its own last addition), always in the same order.
    Indices are read as unsigned, which spares Numba the check for negative ones.
    """
    starts, ends, indices, values, labels = _some(matrix, rows)
    out = np.empty(labels.size)
    _row_products(*alike(starts, ends, indices, values, labels, w), _ahead(w, rows), out)
    return out


def _ahead(w: np.ndarray, rows: np.ndarray | None) -> int:
    """Return how far ahead a vector is asked for, 0 for not at all: of some rows nobody knows what comes next."""
    return AHEAD if rows is None and w.size >= FAR_VECTOR else 0


def _some(matrix: Matrix, rows: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Return where rows start and end, with the entries of all and the labels of these."""
    indptr, indices, values, labels = matrix
    indices = indices.view(np.uint32)
    if rows is None:
        return indptr[:-1], indptr[1:], indices, values, labels
    return indptr[rows], indptr[rows + 1], indices, values, labels[rows]


@kernel
def _row_products_two(starts, ends, indices, values, scale, vectors, ahead, out_v, out_w):  # type: ignore[no-untyped-def]
    v, w = vectors
    for i in range(out_v.size):
        a = b = c = d = 0.0
        start, end = np.uint64(starts[i]), np.uint64(ends[i])
        whole = start + (((end - start) >> _U1) << _U1)
        for k in range(start, whole, np.uint64(2)):
            if ahead and (k & _U2) == 0:
                _ask_for(v, indices, k + np.uint64(ahead))
                _ask_for(w, indices, k + np.uint64(ahead))
            first, second = np.float64(values[k]), np.float64(values[k + _U1])
            a += first * v[indices[k]]
            b += second * v[indices[k + _U1]]
            c += first * w[indices[k]]
            d += second * w[indices[k + _U1]]
        for k in range(whole, end):
            a += np.float64(values[k]) * v[indices[k]]
            c += np.float64(values[k]) * w[indices[k]]
        out_v[i], out_w[i] = scale[i] * (a + b), scale[i] * (c + d)


def margins_two(
    matrix: Matrix, v: np.ndarray, w: np.ndarray, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return z_i . v and z_i . w for every row, or for some by number, reading the rows once."""
    starts, ends, indices, values, labels = _some(matrix, rows)
    first, second = np.empty(labels.size), np.empty(labels.size)
    vectors = tuple(alike(v, w))
    _row_products_two(*alike(starts, ends, indices, values, labels), vectors, _ahead(w, rows), first, second)
    return first, second


@kernel
def _row_squares(indptr, indices, values, weights, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            value = np.float64(values[k])
            total += value * value * weights[indices[k]]
        out[i] = total


def weighted_squares(matrix: Matrix, weights: np.ndarray) -> np.ndarray:
    """Return sum_j a_j x_ij^2 for every row."""
    indptr, indices, values, labels = matrix
    out = np.empty(labels.size)
    _row_squares(*alike(indptr, indices.view(np.uint32), values, weights), out)
    return out


@kernel
def add_squares(indices, values, out):  # type: ignore[no-untyped-def]
    """Add the squares of some entries to those of their columns."""
    for k in range(indices.size):
        value = np.float64(values[k])
        out[indices[k]] += value * value


@kernel
def _row_products_beside(indptr, indices, values, v, out):  # type: ignore[no-untyped-def]
    m = v.shape[1]
    even, odd = np.empty(m), np.empty(m)
    for i in range(out.shape[1]):
        for j in range(m):
            even[j] = odd[j] = 0.0
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        whole = start + (((end - start) >> _U1) << _U1)
        for k in range(start, whole, np.uint64(2)):
            first, second = np.float64(values[k]), np.float64(values[k + _U1])
            p, q = indices[k], indices[k + _U1]
            for j in range(m):
                even[j] += first * v[p, j]
            for j in range(m):
                odd[j] += second * v[q, j]
        for k in range(whole, end):
            first, p = np.float64(values[k]), indices[k]
            for j in range(m):
                even[j] += first * v[p, j]
        for j in range(m):
            out[j, i] = even[j] + odd[j]


def products_of_pairs(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, beside: np.ndarray) -> np.ndarray:
    """Return x_i . v for every row i and every column v of ``beside``, a line a column.

    Each has the bits that ``margins_two`` gives it (before labels): two interleaved sums.
    """
    out = np.empty((beside.shape[1], indptr.size - 1))
    _row_products_beside(*alike(indptr, indices.view(np.uint32), values, beside), out)
    return out


@dataclass(frozen=True)
class SparseVector:
    """A vector by its nonzero positions (sorted) and values."""

    index: np.ndarray
    value: np.ndarray
    size: int

    def dense(self) -> np.ndarray:
        """Return the vector in full."""
        full = np.zeros(self.size)
        full[self.index] = self.value
        return full


@inline
def _ones(x):  # type: ignore[no-untyped-def]
    """Return the number of bits set in a 64-bit word."""
    x = x - ((x >> _U1) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@kernel
def _present(indices, words, before):  # type: ignore[no-untyped-def]
    """Mark the features that occur (a bit each) and count those before every word of 64."""
    for j in indices:
        words[j >> 6] |= _U1 << (np.uint64(j) & _U63)
    for k in range(words.size):
        before[k + 1] = before[k] + np.int64(_ones(words[k]))


@inline
def _place(j, words, before):  # type: ignore[no-untyped-def]
    """Return how many of the features that occur are below the j-th."""
    below = words[j >> _U6] & ((_U1 << (j & _U63)) - _U1)
    return np.uint64(before[j >> _U6]) + np.uint64(_ones(below))


@kernel
def _collect(indptr, indices, values, coefficients, words, before, index, value, places):  # type: ignore[no-untyped-def]
    """Add rows up; ``places`` is room for those of the next nonzeros, so that they can be asked for: a power of two."""
    count, room = np.uint64(indices.size), np.uint64(places.size)
    for k in range(min(room, count)):
        places[k] = _place(np.uint64(indices[k]), words, before)
    for i in range(coefficients.size):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            at, turn = places[k & (room - _U1)], k + room
            if turn + room < count:
                prefetch(words, np.uint64(indices[turn + room]) >> _U6)
                prefetch(before, np.uint64(indices[turn + room]) >> _U6)
            if turn < count:
                ahead = _place(np.uint64(indices[turn]), words, before)
                places[k & (room - _U1)] = ahead
                prefetch(index, ahead)
                prefetch(value, ahead)
            index[at] = indices[k]
            value[at] += coefficients[i] * np.float64(values[k])


@kernel
def _add_rows(indptr, indices, values, coefficients, total):  # type: ignore[no-untyped-def]
    for i in range(coefficients.size):
        a = coefficients[i]
        if a != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                total[indices[k]] += a * values[k]


def dense_sum(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, coefficients: np.ndarray, n_features: int
) -> SparseVector:
    """Return what ``weighted_sum`` does, to the bit, by a vector of all features; rows with a_i = 0 are not read."""
    total = np.zeros(n_features)
    _add_rows(*alike(indptr, indices, values), coefficients.astype(np.float64), total)
    index = np.flatnonzero(total)
    return SparseVector(index.astype(np.int32), total[index], n_features)


def weighted_sum(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, coefficients: np.ndarray, n_features: int
) -> SparseVector:
    """Return sum_i a_i x_i over the features that occur, without a dense vector of all features.

    One bit a feature says which occur; a feature's place in the result is the number of those below it. O(nonzeros +
    features/64) time, 12 bytes for each feature that occurs plus features/4 bytes.
    """
    indptr, indices, values = alike(indptr, indices, values)
    words = np.zeros(n_features // 64 + 1, np.uint64)
    before = np.zeros(words.size + 1, np.int64)
    _present(indices, words, before)
    index, value = np.empty(before[-1], np.int32), np.zeros(before[-1])
    weights, places = coefficients.astype(np.float64), np.empty(PLACES_AHEAD, np.uint64)
    _collect(indptr, indices.view(np.uint32), values, weights, words, before, index, value, places)
    return SparseVector(index, value, n_features)


@kernel
def _merge_two(index_a, value_a, index_b, value_b, index, value):  # type: ignore[no-untyped-def]
    a = b = n = 0
    while a < index_a.size or b < index_b.size:
        if b == index_b.size or (a < index_a.size and index_a[a] < index_b[b]):
            index[n], value[n] = index_a[a], value_a[a]
            a += 1
        elif a == index_a.size or index_b[b] < index_a[a]:
            index[n], value[n] = index_b[b], value_b[b]
            b += 1
        else:
            index[n], value[n] = index_a[a], value_a[a] + value_b[b]
            a += 1
            b += 1
        n += 1
    return n


def add_sparse(a: SparseVector, b: SparseVector) -> SparseVector:
    """Return a + b."""
    index = np.empty(a.index.size + b.index.size, np.int32)
    value = np.empty(index.size)
    n = _merge_two(a.index, a.value, b.index, b.value, index, value)
    return SparseVector(index[:n].copy(), value[:n].copy(), a.size)


@inline
def _copy_row(source, i, indices, values, end):  # type: ignore[no-untyped-def]
    """Copy the entries of row i of ``source`` to where others end; return where they end then.

    Two loops over unsigned numbers become copies of whole blocks: 0.5 to 1.8 ns a nonzero, 1.6 to 4.1 as one.
    """
    indptr, from_indices, from_values = source
    start, end = np.uint64(indptr[i]), np.uint64(end)
    count = np.uint64(indptr[i + 1]) - start
    for k in range(count):
        indices[end + k] = from_indices[start + k]
    for k in range(count):
        values[end + k] = from_values[start + k]
    return end + count


@kernel
def copy_rows(source, chosen, out):  # type: ignore[no-untyped-def]
    """Copy the chosen rows (by number) into ``out``, from its first entry on."""
    end = np.uint64(0)
    for n in range(chosen.size):
        end = _copy_row(source, chosen[n], out[1], out[2], end)
        out[0][n + 1] = end


@kernel
def place_rows(source, chosen, starts, out):  # type: ignore[no-untyped-def]
    """Copy the entries of the chosen rows (by number) into ``out``, indices and values, each from where it starts."""
    for n in range(chosen.size):
        _copy_row(source, chosen[n], out[0], out[1], starts[n])


@kernel
def sign_rows(indptr, values, labels):  # type: ignore[no-untyped-def]
    """Turn rows x_i into z_i = y_i x_i, in place."""
    for i in range(labels.size):
        if labels[i] < 0:
            for k in range(indptr[i], indptr[i + 1]):
                values[k] = -values[k]


@kernel
def insert_rows(parts, missing, new):  # type: ignore[no-untyped-def]
    """Put new rows where a mask by row says that they are missing; the others are in front, and there is room."""
    indptr, left = parts[0], new[0].size - 1
    old, end = missing.size - left, parts[1].size
    indptr[missing.size] = end
    for n in range(missing.size - 1, -1, -1):
        if left == 0:  # the others are where they belong
            break
        if missing[n]:
            left -= 1
            end = _move_row(new, left, parts, end)
        else:
            old -= 1
            end = _move_row(parts, old, parts, end)
        indptr[n] = end


@inline
def _move_row(source, i, out, end):  # type: ignore[no-untyped-def]
    """Copy row i of ``source`` to where it ends at ``end``, which is no further back; return where it starts."""
    indptr, indices, values = source
    for k in range(indptr[i + 1] - 1, indptr[i] - 1, -1):
        end -= 1
        out[1][end] = indices[k]
        out[2][end] = values[k]
    return end
