"""The subspace step of dual coordinate descent: what makes its sweeps add up.

A sweep leaves alpha^ = alpha + s. Near the solution s is Gauss-Seidel's answer to a linear system over the free rows,
and its tail is slow where conjugate gradients' is not. So the sweep is taken as their preconditioner: the next alpha
is the dual optimum over

    alpha + span{s, p1, p2},    p1, p2 the last two steps,

clipped into the box (sequential subspace optimisation, Narkiss and Zibulevsky 2005; with s from a symmetric sweep, p1
alone and no box it would be the conjugate gradient method, and p2 makes up for the random order). With the images
q = Z^T p kept beside the steps only rows that are clipped need be touched: the dual along x = (x_0, x_1, x_2) is

    D(alpha + sum x_k p_k) - D(alpha) = b . x - x . G x / 2,    b_k = sum_i p_ki - w . q_k,    G_kl = q_k . q_l.

If clipping leaves less than the sweep alone has gained, alpha^ stands: the dual never falls.

Numba's cache watches this file only: after a change in ``dcd_kernel`` touch it.
"""

from __future__ import annotations

import numpy as np

from pipeline.jit import inline, kernel
from pipeline.solve.dcd_kernel import add_row, sweep

DEPENDENT, NOISE, ROUNDING = 1e-6, 1e-14, 1e-15
LONGEST_WAIT = 4


@inline
def _small_solve(g, b, sizes, x):  # type: ignore[no-untyped-def]
    """Solve G x = b (3 by 3, positive semidefinite) by Cholesky.

    Left out are directions that depend on those before, and images that are lost in the rounding of their sums.
    """
    factor = np.zeros((3, 3))
    for k in range(3):
        for m in range(k):
            rest = g[k, m]
            for j in range(m):
                rest -= factor[k, j] * factor[m, j]
            factor[k, m] = rest / factor[m, m] if factor[m, m] > 0.0 else 0.0
        rest = g[k, k]
        for j in range(k):
            rest -= factor[k, j] ** 2
        factor[k, k] = np.sqrt(rest) if rest > max(DEPENDENT * g[k, k], NOISE * sizes[k]) else 0.0
    for k in range(3):
        rest = b[k]
        for j in range(k):
            rest -= factor[k, j] * x[j]
        x[k] = rest / factor[k, k] if factor[k, k] > 0.0 else 0.0
    for k in range(2, -1, -1):
        rest = x[k]
        for j in range(k + 1, 3):
            rest -= factor[j, k] * x[j]
        x[k] = rest / factor[k, k] if factor[k, k] > 0.0 else 0.0


@inline
def _quadratic(squares, alpha, w, moved, old, p1, p2):  # type: ignore[no-untyped-def]
    """Return (G, b) over the sweep's own step and the two steps before, and the squares summed into each image."""
    alpha0, w0 = old
    g, b, sizes = np.zeros((3, 3)), np.zeros(3), np.zeros(3)
    for i in moved:
        a0, a1, a2 = alpha[i] - alpha0[i], p1[0][i], p2[0][i]
        b[0] += a0
        b[1] += a1
        b[2] += a2
        sizes[0] += a0 * a0 * squares[i]
        sizes[1] += a1 * a1 * squares[i]
        sizes[2] += a2 * a2 * squares[i]
    q1, q2 = p1[1], p2[1]
    b0 = b1 = b2 = g00 = g01 = g02 = g11 = g12 = g22 = total = 0.0
    for j in range(w.size):
        q0 = w[j] - w0[j]
        total += w0[j] * w0[j]
        b0 += w0[j] * q0
        b1 += w0[j] * q1[j]
        b2 += w0[j] * q2[j]
        g00 += q0 * q0
        g01 += q0 * q1[j]
        g02 += q0 * q2[j]
        g11 += q1[j] * q1[j]
        g12 += q1[j] * q2[j]
        g22 += q2[j] * q2[j]
    b[0] -= b0
    b[1] -= b1
    b[2] -= b2
    g[0, 0], g[1, 1], g[2, 2] = g00, g11, g22
    g[0, 1], g[0, 2], g[1, 2] = g01, g02, g12
    g[1, 0], g[2, 0], g[2, 1] = g01, g02, g12
    return g, b, sizes + total


@inline
def _combine(rows, u, alpha, w, moved, old, p1, p2, x):  # type: ignore[no-untyped-def]
    """Overwrite ``p2`` by x_0 (this sweep's step) + x_1 p1 + x_2 p2, clipped into the box; return what it gains."""
    indptr, indices, values = rows
    (alpha0, w0), (step, image) = old, p2
    for j in range(w.size):
        image[j] = x[0] * (w[j] - w0[j]) + x[1] * p1[1][j] + x[2] * image[j]
    gain = 0.0
    for i in moved:
        wanted = x[0] * (alpha[i] - alpha0[i]) + x[1] * p1[0][i] + x[2] * step[i]
        step[i] = min(max(alpha0[i] + wanted, 0.0), u[i]) - alpha0[i]
        gain += step[i]
        if abs(step[i] - wanted) > ROUNDING * u[i]:
            start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            add_row(indices, values, start, end, step[i] - wanted, image)
    for j in range(w.size):
        gain -= (w0[j] + image[j] / 2) * image[j]
    return gain


@inline
def _subspace_step(rows, squares, u, alpha, w, moved, old, p1, p2):  # type: ignore[no-untyped-def]
    """Replace (alpha, w) as a sweep left them by the optimum of the subspace; the step taken overwrites ``p2``.

    Returns the gain over that of the sweep, or 1 where the sweep's result stands. old = (alpha, w) before the sweep,
    brought up to date; p1 and p2 = (step, image); ``moved`` lists the rows that sweep or steps may have changed.
    """
    (alpha0, w0), (step, image) = old, p2
    g, b, sizes = _quadratic(squares, alpha, w, moved, old, p1, p2)
    x = np.zeros(3)
    _small_solve(g, b, sizes, x)
    plain = b[0] - g[0, 0] / 2
    gain = _combine(rows, u, alpha, w, moved, old, p1, p2, x) if x[0] > 0.0 else -np.inf
    if gain > plain:
        for i in moved:
            alpha0[i] = alpha[i] = min(max(alpha0[i] + step[i], 0.0), u[i])
        for j in range(w.size):
            w0[j] = w[j] = w0[j] + image[j]
    else:
        for i in moved:
            step[i] = alpha[i] - alpha0[i]
            alpha0[i] = alpha[i]
        for j in range(w.size):
            image[j] = w[j] - w0[j]
            w0[j] = w[j]
    return gain / plain if gain > plain > 0.0 else 1.0


@kernel
def settle(rows, alpha, gone, memory):  # type: ignore[no-untyped-def]
    """Take rows that have been set aside out of the steps, which must not move them any more."""
    indptr, indices, values = rows
    (alpha0, w0), (step1, image1), (step2, image2) = memory
    for i in gone:
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if alpha[i] != alpha0[i]:
            add_row(indices, values, start, end, alpha[i] - alpha0[i], w0)
            alpha0[i] = alpha[i]
        if step1[i] != 0.0:
            add_row(indices, values, start, end, -step1[i], image1)
            step1[i] = 0.0
        if step2[i] != 0.0:
            add_row(indices, values, start, end, -step2[i], image2)
            step2[i] = 0.0


@kernel
def sweeps(rows, box, point, order, memory, shrink, plan):  # type: ignore[no-untyped-def]
    """Run sweeps with subspace steps between them; return (active rows, gap estimate, steps).

    box = (u, |z_i|^2), point = (alpha, w, margins), order as in ``sweep``. memory = (old, p1, p2); after an odd number
    of steps p1 and p2 have changed places. plan = (count, price, pace): a step costs ``price`` sweeps and pays if it
    gains half as much on top of the sweeps before it (half, because steps gain most from one another); pace = [sweeps
    up to the next step, sweeps between steps], the latter doubled when a step did not pay, and 1 again when one did.
    """
    (u, squares), (alpha, w, margins), (old, p1, p2) = box, point, memory
    active, _, limits = order
    count, price, pace = plan
    n_active, estimate, steps = np.int64(limits[0]), 0.0, 0
    for _ in range(count):
        before = n_active
        n_active, estimate = sweep(rows, squares, u, alpha, w, order, margins, shrink)
        settle(rows, alpha, active[n_active:before], (old, p1, p2))
        if n_active == 0:
            break
        pace[0] -= 1
        if pace[0] <= 0:
            ratio = _subspace_step(rows, squares, u, alpha, w, active[:n_active], old, p1, p2)
            p1, p2 = p2, p1
            steps += 1
            pace[1] = 1 if ratio > 1.0 + 0.5 * price / pace[1] else min(2 * pace[1], LONGEST_WAIT)
            pace[0] = pace[1]
    return n_active, estimate, steps
