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
"""

from __future__ import annotations

import numpy as np

from pipeline.jit import inline, kernel, prefetch
from pipeline.solve.dcd_kernel import add_row, sweep

DEPENDENT, NOISE, ROUNDING = 1e-6, 1e-14, 1e-15  # shares of a square, of a sum, of u_i: what is less is rounding
_AHEAD = np.uint64(16)  # records asked for before they are needed, in random order
LONGEST_WAIT = 4  # sweeps between steps that do not pay; a plain choice: sides change, and a step may pay again


@inline
def _small_solve(g, b, sizes, factor, x):  # type: ignore[no-untyped-def]
    """Solve G x = b (3 by 3, positive semidefinite) by Cholesky.

    Left out are directions that depend on those before, and images that are lost in the rounding of their sums.
    """
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
def _products(w, w0, q1, q2):  # type: ignore[no-untyped-def]
    """Return w0 . w0, the products of w0 with q0 = w - w0, q1 and q2, and those of two of these."""
    total = b0 = b1 = b2 = g00 = g01 = g02 = g11 = g12 = g22 = 0.0
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
    return total, (b0, b1, b2), (g00, g01, g02, g11, g12, g22)


@inline
def _loss(w0, image):  # type: ignore[no-untyped-def]
    """Return w0 . image + |image|^2/2."""
    slope = size = 0.0
    for j in range(w0.size):
        slope += w0[j] * image[j]
        size += image[j] * image[j]
    return slope + size / 2


@inline
def _record(duals, order, k):  # type: ignore[no-untyped-def]
    """Return the record of the k-th row of an order, and ask for one further on."""
    if k + _AHEAD < np.uint64(order.size):
        prefetch(duals, np.uint64(order[k + _AHEAD]))
    return duals[order[k]]


@inline
def _quadratic(duals, moved, features, scratch):  # type: ignore[no-untyped-def]
    """Write G and b over the sweep's own step and the two steps before, and the squares summed into each image."""
    w, w0, q1, q2 = features
    g, b, sizes, _, _ = scratch
    total, (c0, c1, c2), (g00, g01, g02, g11, g12, g22) = _products(w, w0, q1, q2)
    g[0, 0], g[1, 1], g[2, 2] = g00, g11, g22
    g[0, 1], g[0, 2], g[1, 2] = g01, g02, g12
    g[1, 0], g[2, 0], g[2, 1] = g01, g02, g12
    b0, b1, b2 = -c0, -c1, -c2
    size0 = size1 = size2 = total
    for k in range(np.uint64(moved.size)):
        one = _record(duals, moved, k)
        a0, a1, a2 = one.alpha - one.old, one.step, one.last
        square = 1.0 / one.inverse if one.inverse > 0.0 else 0.0
        b0 += a0
        b1 += a1
        b2 += a2
        size0 += a0 * a0 * square
        size1 += a1 * a1 * square
        size2 += a2 * a2 * square
    b[0], b[1], b[2] = b0, b1, b2
    sizes[0], sizes[1], sizes[2] = size0, size1, size2


@inline
def _combine(rows, duals, moved, features, x):  # type: ignore[no-untyped-def]
    """Make x_0 (this sweep's step) + x_1 p1 + x_2 p2, clipped into the box, the newest step; return what it gains."""
    indptr, indices, values = rows
    w, w0, image, last = features
    for j in range(w.size):
        new = x[0] * (w[j] - w0[j]) + x[1] * image[j] + x[2] * last[j]
        last[j] = image[j]
        image[j] = new
    gain = 0.0
    for k in range(np.uint64(moved.size)):
        one, i = _record(duals, moved, k), moved[k]
        wanted = x[0] * (one.alpha - one.old) + x[1] * one.step + x[2] * one.last
        one.last = one.step
        one.step = min(max(one.old + wanted, 0.0), one.u) - one.old
        gain += one.step
        if abs(one.step - wanted) > ROUNDING * one.u:
            start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            add_row(indices, values, start, end, one.step - wanted, image)
    return gain - _loss(w0, image)


@inline
def _subspace_step(rows, duals, moved, features, scratch):  # type: ignore[no-untyped-def]
    """Replace (alpha, w) as a sweep left them by the optimum of the subspace, and make that the newest step.

    Returns the gain over that of the sweep, or 1 where the sweep's result stands. features = (w, w before the sweep,
    the images of the last two steps), brought up to date; ``moved`` lists the rows that sweep or steps may have moved.
    """
    w, w0, image, _ = features
    g, b, sizes, factor, x = scratch
    _quadratic(duals, moved, features, scratch)
    _small_solve(g, b, sizes, factor, x)
    plain = b[0] - g[0, 0] / 2
    gain = _combine(rows, duals, moved, features, x)
    if x[0] > 0.0 and gain > plain:
        for k in range(np.uint64(moved.size)):
            one = _record(duals, moved, k)
            one.old = one.alpha = min(max(one.old + one.step, 0.0), one.u)
        for j in range(w.size):
            w0[j] = w[j] = w0[j] + image[j]
        return gain / plain if plain > 0.0 else 1.0
    for k in range(np.uint64(moved.size)):
        one = _record(duals, moved, k)
        one.step = one.alpha - one.old
        one.old = one.alpha
    for j in range(w.size):
        image[j] = w[j] - w0[j]
        w0[j] = w[j]
    return 1.0


@kernel
def settle(rows, duals, gone, features):  # type: ignore[no-untyped-def]
    """Take rows that have been set aside out of the steps, which must not move them any more."""
    indptr, indices, values = rows
    _, w0, image, last = features
    for i in gone:
        one, start, end = duals[i], np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if one.alpha != one.old:
            add_row(indices, values, start, end, one.alpha - one.old, w0)
            one.old = one.alpha
        if one.step != 0.0:
            add_row(indices, values, start, end, -one.step, image)
            one.step = 0.0
        if one.last != 0.0:
            add_row(indices, values, start, end, -one.last, last)
            one.last = 0.0


@kernel
def scale_free(rows, duals, active, features):  # type: ignore[no-untyped-def]
    """Scale the free alphas to the dual optimum and make them the only step: the steps before are forgotten."""
    indptr, indices, values = rows
    w, w0, image, last = features
    image[:] = 0.0
    total, room = 0.0, np.inf
    for k in range(np.uint64(active.size)):
        one, i = _record(duals, active, k), active[k]
        one.step = one.last = 0.0
        if 0.0 < one.alpha < one.u:
            one.step = one.alpha
            total += one.alpha
            room = min(room, one.u / one.alpha)
            add_row(indices, values, np.uint64(indptr[i]), np.uint64(indptr[i + 1]), one.alpha, image)
    slope, size = total, 0.0
    for j in range(w.size):
        slope -= w[j] * image[j]
        size += image[j] * image[j]
    growth = min(max(slope / max(size, 1e-300), -1.0), room - 1.0) if total > 0.0 else 0.0
    for k in range(np.uint64(active.size)):
        one = _record(duals, active, k)
        one.old = one.alpha = min(one.alpha + growth * one.step, one.u)
    for j in range(w.size):
        w0[j] = w[j] = w[j] + growth * image[j]
        last[j] = 0.0


@kernel
def sweeps(rows, duals, features, order, shrink, plan):  # type: ignore[no-untyped-def]
    """Run sweeps with subspace steps between them; return (active rows, free rows, gap estimate, steps).

    features as in a subspace step (all but w are empty before steps begin), order as in ``sweep``. plan = (count,
    price, pace, scratch): a step costs ``price`` sweeps and pays if it gains half as much on top of the sweeps before
    it (half, because steps gain most from one another); pace = [sweeps up to the next step, sweeps between steps], the
    latter doubled when a step did not pay, and 1 again when one did; ``scratch`` is for small matrices.
    """
    active, _, limits = order
    count, price, pace, scratch = plan
    n_active, n_free, estimate, steps = np.int64(limits[0]), 0, 0.0, 0
    for _ in range(count):
        before = n_active
        n_active, n_free, estimate = sweep(rows, duals, features[0], order, shrink)
        if features[1].size:
            settle(rows, duals, active[n_active:before], features)
        if n_active == 0:
            break
        pace[0] -= 1
        if pace[0] <= 0:
            ratio = _subspace_step(rows, duals, active[:n_active], features, scratch)
            steps += 1
            pace[1] = 1 if ratio > 1.0 + 0.5 * price / pace[1] else min(2 * pace[1], LONGEST_WAIT)
            pace[0] = pace[1]
    return n_active, n_free, estimate, steps
