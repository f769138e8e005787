"""The loops of dual coordinate descent over rows (indptr, indices, values).

``indices`` of two dimensions (and no entries) mark dense rows: Numba compiles them apart, without the other's branch.

Rows are met in random order, so that a visit waits for memory more than it computes. Hence all that is known of a row
besides its values is one record of one cache line (``DUAL``), and lines are asked for some visits ahead: half of a
visit's time on rows that exceed the cache.
"""

from __future__ import annotations

import numpy as np

from pipeline.jit import inline, kernel, prefetch

DUAL = np.dtype(
    [
        ("alpha", np.float64),
        ("u", np.float64),
        ("inverse", np.float64),  # 1/|z_i|^2; negative: not yet known
        ("margin", np.float64),  # f_i as it was met last
        ("old", np.float64),  # alpha at the last subspace step,
        ("step", np.float64),  # that step,
        ("last", np.float64),  # and the one before
        ("spare", np.float64),
    ]
)
# Measured on a busy machine, CPU nanoseconds a nonzero of a sweep over kdda-like at 0.05 and url-like at 0.02: 9.5 and
# 3.9 without asking, 5.2 to 6.4 and 2.2 to 2.4 as it is, 5.2 and 2.4 at half the distances, 5.8 and 2.4 at twice them;
# 5.6 and 3.0 with 32 values, 5.2 and 2.4 with 128.
_FAR, _NEAR = np.uint64(12), np.uint64(6)  # visits ahead: ask for a row's record, for its values
_AHEAD = np.uint64(64)  # values asked for; what follows them the hardware sees coming
# Asking for the entries of w that the next rows are to be multiplied with, as passes do, is slower (kdda-like at 0.5, w
# of 80 MB: 8.4 ns without, 9.7 and 9.9 for the next row and the one after it).
_FAR_W, _ROWS_AHEAD = 1 << 20, 4  # but where rows are met in order: entries of w from which on it pays (``maths.csr``)
_U0, _U1, _U2, _U3, _U4, _U8, _U16 = (np.uint64(k) for k in (0, 1, 2, 3, 4, 8, 16))


@inline
def product(indices, values, start, end, w):  # type: ignore[no-untyped-def]
    """Return one row's product with w, in four interleaved sums (a single one would wait for its last addition)."""
    a = b = c = d = 0.0
    whole = start + (((end - start) >> _U2) << _U2)
    if indices.ndim == 2:
        for k in range(start, whole, _U4):
            a += values[k] * w[k - start]
            b += values[k + _U1] * w[k - start + _U1]
            c += values[k + _U2] * w[k - start + _U2]
            d += values[k + _U3] * w[k - start + _U3]
        for k in range(whole, end):
            a += values[k] * w[k - start]
    else:
        for k in range(start, whole, _U4):
            a += values[k] * w[indices[k]]
            b += values[k + _U1] * w[indices[k + _U1]]
            c += values[k + _U2] * w[indices[k + _U2]]
            d += values[k + _U3] * w[indices[k + _U3]]
        for k in range(whole, end):
            a += values[k] * w[indices[k]]
    return (a + b) + (c + d)


@inline
def add_row(indices, values, start, end, factor, w):  # type: ignore[no-untyped-def]
    """Add factor times one row to w."""
    if indices.ndim == 2:
        for k in range(start, end):
            w[k - start] += factor * values[k]
    else:
        for k in range(start, end):
            w[indices[k]] += factor * values[k]


@inline
def _inverse_square(values, start, end):  # type: ignore[no-untyped-def]
    """Return one row's 1/|z_i|^2, inf for a row of zeros."""
    total = 0.0
    for k in range(start, end):
        total += np.float64(values[k]) ** 2
    return 1.0 / total if total > 0.0 else np.inf


@inline
def _below(state, count):  # type: ignore[no-untyped-def]
    """Return the next random number below ``count`` (xorshift64*, high bits)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return ((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) * count >> np.uint64(31)


@inline
def _shuffle(active, state, n_active):  # type: ignore[no-untyped-def]
    for left in range(n_active - 1, 0, -1):
        k = np.uint64(left)
        other = _below(state, k + _U1)
        active[k], active[other] = active[other], active[k]


@inline
def _projected(gradient, alpha, u):  # type: ignore[no-untyped-def]
    """Return the gradient as far as the box lets alpha follow it."""
    low = min(gradient, 0.0) if alpha <= 0.0 else gradient
    return max(low, 0.0) if alpha >= u else low


@inline
def _beyond(gradient, alpha, u, limits):  # type: ignore[no-untyped-def]
    """Whether a row sits at a bound and its gradient holds it there by more than any row has been seen to be off."""
    return ((alpha <= 0.0) & (gradient > limits[1])) | ((alpha >= u) & (gradient < limits[2]))


@inline
def _set_limits(limits, n_active, largest, smallest):  # type: ignore[no-untyped-def]
    limits[0] = n_active
    limits[1] = largest if largest > 0.0 else np.inf
    limits[2] = smallest if smallest < 0.0 else -np.inf


@inline
def _gap_term(gradient, alpha, u):  # type: ignore[no-untyped-def]
    """Return alpha G where G > 0 and (alpha - u) G elsewhere: the larger one."""
    return max(alpha * gradient, (alpha - u) * gradient)


@kernel
def sweep(rows, duals, w, order, shrink):  # type: ignore[no-untyped-def]
    """Sweep once over the active rows in a new random order; return (active rows, free rows, gap estimate).

    order = (active, state, limits): ``active`` lists the rows, those in use first; ``state`` is the random
    generator's; limits = [how many rows are in use, largest and smallest projected gradient of the last sweep]. With
    ``shrink`` a row at a bound whose gradient is beyond those is set aside. The estimate is the sum of the rows' gap
    terms at their margins as they were met: free, and close near convergence.
    """
    indptr, indices, values = rows
    active, state, limits = order
    n_active = np.int64(limits[0])
    n_free, largest, smallest, estimate = 0, -np.inf, np.inf, 0.0
    _shuffle(active, state, n_active)
    kept = _U0
    for k in range(np.uint64(n_active)):
        if k + _FAR < np.uint64(n_active):
            ahead = np.uint64(active[k + _FAR])
            prefetch(indptr, ahead)
            prefetch(duals, ahead)
            ahead = np.uint64(active[k + _NEAR])
            start, end = np.uint64(indptr[ahead]), np.uint64(indptr[ahead + _U1])
            end = min(end, start + _AHEAD)
            for j in range(start, end, _U8):
                prefetch(values, j)
            if indices.ndim == 1:
                for j in range(start, end, _U16):
                    prefetch(indices, j)
        i = np.uint64(active[k])
        one = duals[i]
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + _U1])
        f = product(indices, values, start, end, w)
        one.margin = f
        gradient, alpha, u = f - 1.0, one.alpha, one.u
        if shrink and _beyond(gradient, alpha, u, limits):
            continue
        active[k], active[kept] = active[kept], active[k]
        kept += _U1
        if one.inverse < 0.0:
            one.inverse = _inverse_square(values, start, end)
        projected = _projected(gradient, alpha, u)
        estimate += _gap_term(gradient, alpha, u)
        largest, smallest = max(largest, projected), min(smallest, projected)
        if projected != 0.0:
            new = min(max(alpha - gradient * one.inverse, 0.0), u)
            n_free += (new > 0.0) & (new < u)
            if new != alpha:
                one.alpha = new
                add_row(indices, values, start, end, new - alpha, w)
    _set_limits(limits, kept, largest, smallest)
    return np.int64(kept), n_free, estimate


@inline
def _ask_for(indptr, indices, i, w):  # type: ignore[no-untyped-def]
    """Ask for the entries of w that a sparse row is to be multiplied with, of a long row the first."""
    if indices.ndim == 1:
        start = np.uint64(indptr[i])
        for k in range(start, min(np.uint64(indptr[i + 1]), start + _AHEAD)):
            prefetch(w, np.uint64(indices[k]))


@kernel
def add_rows(rows, alpha, w):  # type: ignore[no-untyped-def]
    """Add sum alpha_i z_i to w, row after row: cutting the rows into parts does not change the result's bits."""
    indptr, indices, values = rows
    last = alpha.size - _ROWS_AHEAD if w.size >= _FAR_W else 0
    for i in range(alpha.size):
        if i < last and alpha[i + _ROWS_AHEAD] != 0.0:
            _ask_for(indptr, indices, i + _ROWS_AHEAD, w)
        if alpha[i] != 0.0:
            add_row(indices, values, np.uint64(indptr[i]), np.uint64(indptr[i + 1]), alpha[i], w)


@kernel
def meet(rows, duals, w, is_zero, first, stop):  # type: ignore[no-untyped-def]
    """Note the margins f_i of some rows at w = w_alpha, which may be known to be 0.

    Returns the sum of their gap terms u_i max(0, 1 - f_i) - alpha_i (1 - f_i), and the largest and the smallest
    projected gradient.
    """
    indptr, indices, values = rows
    total, largest, smallest = 0.0, -np.inf, np.inf
    last = stop - _ROWS_AHEAD if w.size >= _FAR_W and not is_zero else 0
    for i in range(first, stop):
        if i < last:
            _ask_for(indptr, indices, i + _ROWS_AHEAD, w)
        one = duals[i]
        f = 0.0 if is_zero else product(indices, values, np.uint64(indptr[i]), np.uint64(indptr[i + 1]), w)
        one.margin = f
        gradient, alpha, u = f - 1.0, one.alpha, one.u
        total += _gap_term(gradient, alpha, u)
        projected = _projected(gradient, alpha, u)
        largest, smallest = max(largest, projected), min(smallest, projected)
    return total, largest, smallest


@kernel
def call_back(duals, order, shrink, largest, smallest):  # type: ignore[no-untyped-def]
    """Take all rows back into use; with ``shrink``, but for those that a sweep at these margins would set aside."""
    active, _, limits = order
    _set_limits(limits, duals.size, largest, smallest)
    first, last = 0, duals.size
    for i in range(duals.size):
        one = duals[i]
        if shrink and _beyond(one.margin - 1.0, one.alpha, one.u, limits):
            last -= 1
            active[last] = i
        else:
            active[first] = i
            first += 1
    limits[0] = first
