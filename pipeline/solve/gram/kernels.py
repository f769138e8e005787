"""Loops over a Gram matrix for its solvers: products with some columns, blocks, and the search along a clipped step.

A ``Square`` is the matrix as one run of numbers and the distance between its rows: Q_ij = run[i * apart + j].
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from pipeline.jit import kernel

Square: TypeAlias = tuple[np.ndarray, int]


@kernel
def add_columns(square, rows, delta, f):  # type: ignore[no-untyped-def]
    """Add sum_k delta_k Q_:,rows[k] to f; the sum is taken in the order of the rows, four at a time."""
    run, apart = square
    n, whole = f.size, rows.size - rows.size % 4
    for k in range(0, whole, 4):
        r0, r1, r2, r3 = rows[k] * apart, rows[k + 1] * apart, rows[k + 2] * apart, rows[k + 3] * apart
        q0, q1, q2, q3 = run[r0 : r0 + n], run[r1 : r1 + n], run[r2 : r2 + n], run[r3 : r3 + n]
        d0, d1, d2, d3 = delta[k], delta[k + 1], delta[k + 2], delta[k + 3]
        for i in range(n):
            f[i] += (d0 * q0[i] + d1 * q1[i]) + (d2 * q2[i] + d3 * q3[i])
    for k in range(whole, rows.size):
        q = run[rows[k] * apart : rows[k] * apart + n]
        for i in range(n):
            f[i] += delta[k] * q[i]


@kernel
def block(square, rows, out):  # type: ignore[no-untyped-def]
    """Write the lower triangle of Q over the listed rows to ``out``."""
    run, apart = square
    for a in range(rows.size):
        q = run[rows[a] * apart :]
        for c in range(a + 1):
            out[a, c] = q[rows[c]]


@kernel
def movable(f, alpha, u, out):  # type: ignore[no-untyped-def]
    """List the rows inside the box, and those at a bound that the gradient f - 1 pushes inwards; return how many."""
    count = 0
    for i in range(f.size):
        out[count] = i
        count += (u[i] > 0.0) & ((alpha[i] > 0.0) | (f[i] < 1.0)) & ((alpha[i] < u[i]) | (f[i] > 1.0))
    return count


@kernel
def clipped_search(square, rows, step, image, alpha, u, gradient):  # type: ignore[no-untyped-def]
    """Return the t that minimises -D(clip(alpha + t step)), and by how much D rises; all arrays over ``rows``.

    ``image`` is Q step, and is used up.

    Along t the value is quadratic between the points where a row reaches its bound and stays there. With s the step of
    the rows still moving (``active``, 0 elsewhere), ``image`` = Q s and ``way`` = Q delta of the way so far,

        slope = s . (gradient + way),    curvature = s . image;

    a row that stops costs one pass over its column. All pieces up to t = 1 are looked at, since the first minimum may
    be next to nothing; beyond, the first one ends the search.
    """
    run, apart = square
    n = rows.size
    way, stops, active = np.zeros(n), np.empty(n), np.zeros(n)
    for k in range(n):
        if step[k] > 0.0:
            stops[k] = (u[k] - alpha[k]) / step[k]
        elif step[k] < 0.0:
            stops[k] = alpha[k] / -step[k]
        else:
            stops[k] = np.inf
        if stops[k] > 0.0 and step[k] != 0.0:
            active[k] = step[k]
        elif step[k] != 0.0:  # at its bound already
            q = run[rows[k] * apart :]
            for m in range(n):
                image[m] -= step[k] * q[rows[m]]
    slope = curvature = 0.0
    for k in range(n):
        slope += active[k] * gradient[k]
        curvature += active[k] * image[k]
    t = value = best_t = best = 0.0
    order = np.argsort(stops)
    for place in range(n + 1):
        end = stops[order[place]] if place < n else np.inf
        if end <= 0.0:
            continue
        if slope < 0.0:
            lowest = t - slope / curvature if curvature > 0.0 else np.inf
            stop = min(lowest, end)
            there = value + (stop - t) * (slope + (stop - t) * curvature / 2) if stop < np.inf else 0.0
            if there < best:
                best, best_t = there, stop
            if t >= 1.0 and stop < end:
                break
        if end == np.inf:
            break
        value += (end - t) * (slope + (end - t) * curvature / 2)
        gone = order[place]
        q = run[rows[gone] * apart :]
        active[gone] = slope = curvature = 0.0
        for m in range(n):
            way[m] += (end - t) * image[m]
            image[m] -= step[gone] * q[rows[m]]
            slope += active[m] * (gradient[m] + way[m])
            curvature += active[m] * image[m]
        t = end
        if t >= 1.0 and slope >= 0.0:
            break
    return best_t, -best
