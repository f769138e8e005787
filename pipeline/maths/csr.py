"""Sparse rows times vectors: the loops that every pass spends its time in. Numba, float64 sums, no GIL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.jit import inline, kernel

_U1, _U2, _U3, _U4, _U63 = (np.uint64(k) for k in (1, 2, 3, 4, 63))


@kernel
def _row_products(indptr, indices, values, scale, w, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        a = b = c = d = 0.0
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        whole = start + (((end - start) >> _U2) << _U2)
        for k in range(start, whole, _U4):
            a += np.float64(values[k]) * w[indices[k]]
            b += np.float64(values[k + _U1]) * w[indices[k + _U1]]
            c += np.float64(values[k + _U2]) * w[indices[k + _U2]]
            d += np.float64(values[k + _U3]) * w[indices[k + _U3]]
        for k in range(whole, end):
            a += np.float64(values[k]) * w[indices[k]]
        out[i] = scale[i] * ((a + b) + (c + d))


def margins(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, labels: np.ndarray, w: np.ndarray
) -> np.ndarray:
    """Return f_i = z_i . w = y_i (x_i . w) for every row, in O(nonzeros).

    Each row is four interleaved float64 sums (a single one waits for its own last addition), always in the same order.
    Indices are read as unsigned, which spares Numba the check for negative ones.
    """
    out = np.empty(labels.size)
    _row_products(indptr, indices.view(np.uint32), values, labels, w, out)
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
def _present(indices, size):  # type: ignore[no-untyped-def]
    """Mark the features that occur (a bit each) and count those before every word of 64."""
    words = np.zeros(size // 64 + 1, np.uint64)
    for j in indices:
        words[j >> 6] |= _U1 << (np.uint64(j) & _U63)
    before = np.zeros(words.size + 1, np.int64)
    for k in range(words.size):
        before[k + 1] = before[k] + np.int64(_ones(words[k]))
    return words, before


@kernel
def _collect(indptr, indices, values, coefficients, words, before, index, value):  # type: ignore[no-untyped-def]
    for i in range(coefficients.size):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            below = words[j >> 6] & ((_U1 << (np.uint64(j) & _U63)) - _U1)
            at = before[j >> 6] + np.int64(_ones(below))
            index[at] = j
            value[at] += coefficients[i] * np.float64(values[k])


def weighted_sum(
    indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, coefficients: np.ndarray, n_features: int
) -> SparseVector:
    """Return sum_i a_i x_i over the features that occur, without a dense vector of all features.

    One bit a feature says which occur; a feature's place in the result is the number of those below it. O(nonzeros +
    features/64) time, 12 bytes for each feature that occurs plus features/4 bytes.
    """
    words, before = _present(indices, n_features)
    index, value = np.empty(before[-1], np.int32), np.zeros(before[-1])
    _collect(indptr, indices, values, coefficients.astype(np.float64), words, before, index, value)
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


@kernel
def select_rows(indptr, indices, values, chosen, out_indptr, out_indices, out_values):  # type: ignore[no-untyped-def]
    """Copy the chosen rows (by number) into arrays of the right size."""
    end = 0
    for n in range(chosen.size):
        i = chosen[n]
        for k in range(indptr[i], indptr[i + 1]):
            out_indices[end] = indices[k]
            out_values[end] = values[k]
            end += 1
        out_indptr[n + 1] = end
