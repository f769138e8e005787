"""The loops of dual coordinate descent over rows (indptr, indices, values).

``indices`` of two dimensions (and no entries) mark dense rows: Numba compiles them apart, without the other's branch.
"""

from __future__ import annotations

import numpy as np

from pipeline.jit import inline, kernel

_U1, _U2, _U3, _U4 = (np.uint64(k) for k in (1, 2, 3, 4))


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
def square(values, start, end):  # type: ignore[no-untyped-def]
    """Return one row's |z_i|^2."""
    total = 0.0
    for k in range(start, end):
        total += np.float64(values[k]) ** 2
    return total


@inline
def _below(state, count):  # type: ignore[no-untyped-def]
    """Return the next random number below ``count`` (xorshift64*, high bits)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64(((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) * np.uint64(count) >> np.uint64(31))


@inline
def _projected(gradient, alpha, u):  # type: ignore[no-untyped-def]
    """Return the gradient as far as the box lets alpha follow it."""
    if alpha <= 0.0:
        return min(gradient, 0.0)
    return max(gradient, 0.0) if alpha >= u else gradient


@inline
def _beyond(gradient, alpha, u, limits):  # type: ignore[no-untyped-def]
    """Whether a row sits at a bound and its gradient holds it there by more than any row has been seen to be off."""
    return (alpha <= 0.0 and gradient > limits[1]) or (alpha >= u and gradient < limits[2])


@inline
def _set_limits(limits, n_active, largest, smallest):  # type: ignore[no-untyped-def]
    limits[0] = n_active
    limits[1] = largest if largest > 0.0 else np.inf
    limits[2] = smallest if smallest < 0.0 else -np.inf


@inline
def sweep(rows, squares, u, alpha, w, order, margins, shrink):  # type: ignore[no-untyped-def]
    """Sweep once over the active rows in a new random order; return (active rows, gap estimate).

    order = (active, state, limits): ``active`` lists the rows, those in use first; ``state`` is the random
    generator's; limits = [how many rows are in use, largest and smallest projected gradient of the last sweep]. With
    ``shrink`` a row at a bound whose gradient is beyond those is set aside. ``margins`` gets f_i as it was met; the
    estimate is the sum of the rows' gap terms at those: free, and close near convergence. ``squares`` is filled as
    rows are first moved (negative: not yet known).
    """
    indptr, indices, values = rows
    active, state, limits = order
    n_active = np.int64(limits[0])
    largest, smallest, estimate = -np.inf, np.inf, 0.0
    for k in range(n_active - 1, 0, -1):
        other = _below(state, k + 1)
        active[k], active[other] = active[other], active[k]
    k = 0
    while k < n_active:
        i = active[k]
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        f = product(indices, values, start, end, w)
        margins[i] = f
        gradient, old = f - 1.0, alpha[i]
        if shrink and _beyond(gradient, old, u[i], limits):
            n_active -= 1
            active[k], active[n_active] = active[n_active], active[k]
            continue
        projected = _projected(gradient, old, u[i])
        estimate += old * gradient if gradient > 0.0 else (old - u[i]) * gradient
        largest, smallest = max(largest, projected), min(smallest, projected)
        if projected != 0.0:
            if squares[i] < 0.0:
                squares[i] = square(values, start, end)
            new = min(max(old - gradient / squares[i], 0.0), u[i]) if squares[i] > 0.0 else u[i]
            change = new - old
            if change != 0.0:
                alpha[i] = new
                add_row(indices, values, start, end, change, w)
        k += 1
    _set_limits(limits, n_active, largest, smallest)
    return n_active, estimate


@kernel
def add_rows(rows, alpha, w):  # type: ignore[no-untyped-def]
    """Add sum alpha_i z_i to w."""
    indptr, indices, values = rows
    for i in range(alpha.size):
        if alpha[i] != 0.0:
            add_row(indices, values, np.uint64(indptr[i]), np.uint64(indptr[i + 1]), alpha[i], w)


@kernel
def exact_gap(rows, u, alpha, w, order, margins, shrink):  # type: ignore[no-untyped-def]
    """Return the gap at w = w_alpha, the sum of u_i max(0, 1 - f_i) - alpha_i (1 - f_i), and write f to ``margins``.

    All rows come back into use; with ``shrink``, but for those that a sweep at this w would set aside.
    """
    indptr, indices, values = rows
    active, _, limits = order
    total, largest, smallest = 0.0, -np.inf, np.inf
    for i in range(alpha.size):
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        f = product(indices, values, start, end, w)
        margins[i] = f
        gradient = f - 1.0
        total += alpha[i] * gradient if gradient > 0.0 else (alpha[i] - u[i]) * gradient
        projected = _projected(gradient, alpha[i], u[i])
        largest, smallest = max(largest, projected), min(smallest, projected)
    _set_limits(limits, alpha.size, largest, smallest)
    first, last = 0, alpha.size
    for i in range(alpha.size):
        if shrink and _beyond(margins[i] - 1.0, alpha[i], u[i], limits):
            last -= 1
            active[last] = i
        else:
            active[first] = i
            first += 1
    limits[0] = first
    return total
