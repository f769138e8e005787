"""Rows as sources give them, put in order and checked: sorted, without zeros or duplicates, finite, within range."""

from __future__ import annotations

import math

import numpy as np

from pipeline.jit import inline, kernel

OK, NOT_FINITE, INDEX_TOO_LOW, INDEX_TOO_HIGH, DUPLICATE, NORM_TOO_LARGE = range(6)
LARGEST_NORM = 1e150  # its square is still a float64, with room for sums


@inline
def _norm(values, start, end):  # type: ignore[no-untyped-def]
    """Return |x| of one row, scaled where the plain sum of squares would under- or overflow."""
    squares, largest = 0.0, 0.0
    for k in range(start, end):
        squares += values[k] * values[k]
        largest = max(largest, abs(values[k]))
    if largest == 0.0 or 1e-140 < largest < 1e140:
        return math.sqrt(squares)
    squares = 0.0
    for k in range(start, end):
        squares += (values[k] / largest) ** 2
    return largest * math.sqrt(squares)


@kernel
def tidy(indptr, indices, values, norms, lowest, limit, add_duplicates):  # type: ignore[no-untyped-def]
    """Tidy CSR rows in place: sort indices, drop zeros, add up (or report) duplicates, and fill ``norms``.

    Returns (status, row, entry, nonzeros kept, smallest index, largest index, lossless) where ``lossless`` says that
    every value is exactly a float32. ``entry`` is the offending position before compaction.
    """
    kept, smallest, largest, lossless = np.int64(0), np.int64(2**31), np.int64(-1), True
    start = indptr[0]
    for row in range(indptr.size - 1):
        end = indptr[row + 1]
        in_order = True
        for k in range(start, end):
            if not math.isfinite(values[k]):
                return NOT_FINITE, row, k, kept, smallest, largest, lossless
            index = np.int64(indices[k])
            if index < lowest:
                return INDEX_TOO_LOW, row, k, kept, smallest, largest, lossless
            if index >= limit:
                return INDEX_TOO_HIGH, row, k, kept, smallest, largest, lossless
            smallest, largest = min(smallest, index), max(largest, index)
            if k > start and indices[k] <= indices[k - 1]:
                in_order = False
        if not in_order:
            order = np.argsort(indices[start:end], kind="mergesort")
            old_indices, old_values = indices[start:end].copy(), values[start:end].copy()
            for k in range(order.size):  # assigned as slices, they would take two seconds to compile
                indices[start + k], values[start + k] = old_indices[order[k]], old_values[order[k]]
        first = kept
        for k in range(start, end):
            if kept > first and indices[kept - 1] == indices[k]:
                if not add_duplicates:
                    return DUPLICATE, row, k, kept, smallest, largest, lossless
                values[kept - 1] += values[k]
            else:
                indices[kept] = indices[k]
                values[kept] = values[k]
                kept += 1
        filled, kept = kept, first
        for k in range(first, filled):
            if values[k] != 0.0:
                indices[kept] = indices[k]
                values[kept] = values[k]
                if np.float64(np.float32(values[k])) != values[k]:
                    lossless = False
                kept += 1
        norms[row] = _norm(values, first, kept)
        if not norms[row] <= LARGEST_NORM:
            return NORM_TOO_LARGE, row, start, kept, smallest, largest, lossless
        indptr[row + 1] = kept
        start = end
    return OK, 0, 0, kept, smallest, largest, lossless
