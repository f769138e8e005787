"""Loops over rows for the Newton solver: the proximal dual step, the exact line search, and products of sparse rows."""

from __future__ import annotations

import numpy as np

from pipeline.jit import inline, kernel
from pipeline.solve.dcd_kernel import add_row, product

LINE_SEARCH = 1e-7  # how far phi' is brought down along a step


@kernel
def proximal_alpha(f, alpha, u, sigma, out, free):  # type: ignore[no-untyped-def]
    """Write clip(alpha + sigma (1 - f), 0, u) to ``out``, list the rows it leaves inside the box; return how many."""
    count = 0
    for i in range(f.size):
        step = alpha[i] + sigma[i] * (1.0 - f[i])
        out[i] = min(max(step, 0.0), u[i])
        free[count] = i
        count += (step > 0.0) & (step < u[i])
    return count


@kernel
def line_search(f, q, alpha, u, sigma, slope, curvature):  # type: ignore[no-untyped-def]
    """Return the t > 0 where phi'(t) = slope + curvature t - sum_i q_i a_i(t) is 0, but for a small part of phi'(0).

    a_i(t) = clip(alpha_i + sigma_i (1 - f_i - t q_i), 0, u_i). phi' is continuous, piecewise linear and increasing:
    Newton's method from a bracket ends at the root in finitely many steps.
    """
    at_zero = slope
    for i in range(f.size):
        at_zero -= q[i] * min(max(alpha[i] + sigma[i] * (1.0 - f[i]), 0.0), u[i])
    low, high = 0.0, np.inf
    t = 1.0
    for _ in range(100):
        value, growth = slope + curvature * t, curvature
        for i in range(f.size):
            step = alpha[i] + sigma[i] * (1.0 - f[i] - t * q[i])
            inside = min(max(step, 0.0), u[i])
            value -= q[i] * inside
            growth += sigma[i] * q[i] * q[i] if inside == step else 0.0
        if abs(value) <= LINE_SEARCH * abs(at_zero):
            return t
        if value > 0.0:
            high = t
        else:
            low = t
        new = t - value / growth
        if not low < new < high:
            new = (low + high) / 2 if high < np.inf else 2 * t
        if abs(new - t) <= 1e-12 * t:
            return new
        t = new
    return t


@kernel
def write_margins(rows, w, out):  # type: ignore[no-untyped-def]
    """Write f_i = z_i . w to ``out``."""
    indptr, indices, values = rows
    for i in range(out.size):
        out[i] = product(indices, values, np.uint64(indptr[i]), np.uint64(indptr[i + 1]), w)


@kernel
def gram_of_features(rows, free, sigma, out):  # type: ignore[no-untyped-def]
    """Write the lower triangle of I + sum sigma_i z_i z_i^T over the listed rows to ``out``."""
    indptr, indices, values = rows
    out[:] = 0.0
    for j in range(out.shape[0]):
        out[j, j] = 1.0
    for i in free:
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for k in range(start, end):
            a, row = sigma[i] * values[k], indices[k]
            for m in range(start, k + np.uint64(1)):
                column = indices[m]
                out[max(row, column), min(row, column)] += a * values[m]


@inline
def _feature(indices, start, k):  # type: ignore[no-untyped-def]
    """Return the feature of the k-th value, of a row that begins at ``start``."""
    return k - start if indices.ndim == 2 else np.uint64(indices[k])


@kernel
def squares_of_features(rows, free, sigma, out):  # type: ignore[no-untyped-def]
    """Write the diagonal of I + sum sigma_i z_i z_i^T over the listed rows to ``out``."""
    indptr, indices, values = rows
    out[:] = 1.0
    for i in free:
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for k in range(start, end):
            out[_feature(indices, start, k)] += sigma[i] * values[k] * values[k]


@kernel
def gram_of_listed(rows, free, sigma, place, room, out):  # type: ignore[no-untyped-def]
    """Add sum sigma_i z_i z_i^T over the listed rows to ``out``'s lower triangle, of features that have a ``place``.

    ``room`` is two rows long enough for the values of one row at these features.
    """
    indptr, indices, values = rows
    for i in free:
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        count = 0
        for k in range(start, end):
            at = place[_feature(indices, start, k)]
            if at >= 0:
                room[0, count], room[1, count] = at, values[k]
                count += 1
        for k in range(count):
            a, row = sigma[i] * room[1, k], np.int64(room[0, k])
            for m in range(k + 1):
                column = np.int64(room[0, m])
                out[max(row, column), min(row, column)] += a * room[1, m]


@kernel
def hessian_times(rows, free, sigma, direction, out):  # type: ignore[no-untyped-def]
    """Write (I + sum sigma_i z_i z_i^T) direction over the listed rows to ``out``; each row is read once."""
    indptr, indices, values = rows
    out[:] = direction
    for i in free:
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        f = product(indices, values, start, end, direction)
        add_row(indices, values, start, end, sigma[i] * f, out)


@kernel
def gram_of_rows(rows, free, sigma, spread, out):  # type: ignore[no-untyped-def]
    """Write the lower triangle of I + (sqrt(sigma_i sigma_j) z_i . z_j) over the listed rows to ``out``.

    ``spread`` has an entry a feature, all 0 before and after.
    """
    indptr, indices, values = rows
    for a in range(free.size):
        i = free[a]
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        add_row(indices, values, start, end, np.sqrt(sigma[i]), spread)
        for b in range(a, free.size):
            j = free[b]
            f = product(indices, values, np.uint64(indptr[j]), np.uint64(indptr[j + 1]), spread)
            out[b, a] = f * np.sqrt(sigma[j])
        out[a, a] += 1.0
        for k in range(start, end):
            spread[indices[k]] = 0.0
