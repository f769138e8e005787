"""The loops of dual coordinate descent over CSR rows."""

from __future__ import annotations

import numpy as np

from pipeline.jit import inline, kernel

_U1, _U2, _U3, _U4 = (np.uint64(k) for k in (1, 2, 3, 4))


@inline
def _product(indices, values, start, end, w):  # type: ignore[no-untyped-def]
    """Return one row's product with w, in four interleaved sums."""
    a = b = c = d = 0.0
    whole = start + (((end - start) >> _U2) << _U2)
    for k in range(start, whole, _U4):
        a += values[k] * w[indices[k]]
        b += values[k + _U1] * w[indices[k + _U1]]
        c += values[k + _U2] * w[indices[k + _U2]]
        d += values[k + _U3] * w[indices[k + _U3]]
    for k in range(whole, end):
        a += values[k] * w[indices[k]]
    return (a + b) + (c + d)


@inline
def _below(state, count):  # type: ignore[no-untyped-def]
    """Return the next random number below ``count`` (xorshift64*, high bits)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64(((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) * np.uint64(count) >> np.uint64(31))


@kernel
def sweeps(rows, squares, u, alpha, w, order, shrink, count):  # type: ignore[no-untyped-def]
    """Run ``count`` sweeps over the active rows, in a new random order each; return (active rows, gap estimate).

    order = (active, state, limits): ``active`` lists the rows, those in use first; ``state`` is the random
    generator's; limits = [how many rows are in use, largest and smallest projected gradient of the last sweep]. With
    ``shrink`` a row at a bound whose gradient is beyond those is set aside. The estimate is the sum of the rows' gap
    terms as they were met in the last sweep: free, and close near convergence.
    """
    indptr, indices, values = rows
    active, state, limits = order
    n_active = np.int64(limits[0])
    estimate = 0.0
    for _ in range(count):
        largest, smallest, estimate = -np.inf, np.inf, 0.0
        for k in range(n_active - 1, 0, -1):
            other = _below(state, k + 1)
            active[k], active[other] = active[other], active[k]
        k = 0
        while k < n_active:
            i = active[k]
            start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            gradient = _product(indices, values, start, end, w) - 1.0
            old = alpha[i]
            projected = gradient
            if old <= 0.0:
                if shrink and gradient > limits[1]:
                    n_active -= 1
                    active[k], active[n_active] = active[n_active], active[k]
                    continue
                projected = min(gradient, 0.0)
            elif old >= u[i]:
                if shrink and gradient < limits[2]:
                    n_active -= 1
                    active[k], active[n_active] = active[n_active], active[k]
                    continue
                projected = max(gradient, 0.0)
            estimate += old * gradient if gradient > 0.0 else (old - u[i]) * gradient
            largest, smallest = max(largest, projected), min(smallest, projected)
            if projected != 0.0:
                new = min(max(old - gradient / squares[i], 0.0), u[i]) if squares[i] > 0.0 else u[i]
                change = new - old
                if change != 0.0:
                    alpha[i] = new
                    for m in range(start, end):
                        w[indices[m]] += change * values[m]
            k += 1
        limits[0] = n_active
        limits[1] = largest if largest > 0.0 else np.inf
        limits[2] = smallest if smallest < 0.0 else -np.inf
        if n_active == 0:
            break
    return n_active, estimate


@kernel
def row_squares(rows, squares):  # type: ignore[no-untyped-def]
    """Write |z_i|^2 to ``squares``."""
    indptr, _, values = rows
    for i in range(squares.size):
        total = 0.0
        for m in range(indptr[i], indptr[i + 1]):
            total += np.float64(values[m]) ** 2
        squares[i] = total


@kernel
def fresh_w(rows, alpha, w):  # type: ignore[no-untyped-def]
    """Add sum alpha_i z_i to w, which holds v."""
    indptr, indices, values = rows
    for i in range(alpha.size):
        if alpha[i] != 0.0:
            for m in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                w[indices[m]] += alpha[i] * values[m]


@kernel
def exact_gap(rows, u, alpha, w):  # type: ignore[no-untyped-def]
    """Return the gap at w = w_alpha: the sum of u_i max(0, 1 - f_i) - alpha_i (1 - f_i)."""
    indptr, indices, values = rows
    total = 0.0
    for i in range(alpha.size):
        slack = 1.0 - _product(indices, values, np.uint64(indptr[i]), np.uint64(indptr[i + 1]), w)
        total += (u[i] - alpha[i]) * slack if slack > 0.0 else -alpha[i] * slack
    return total
