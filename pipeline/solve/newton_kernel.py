"""Loops over rows for the Newton solver: the proximal dual step and the exact line search."""

from __future__ import annotations

import numpy as np

from pipeline.jit import kernel


@kernel
def proximal_alpha(f, alpha, u, sigma, out, free):  # type: ignore[no-untyped-def]
    """Write clip(alpha + sigma (1 - f), 0, u) to ``out`` and which rows it leaves inside the box to ``free``."""
    for i in range(f.size):
        step = alpha[i] + sigma[i] * (1.0 - f[i])
        free[i] = 0.0 < step < u[i]
        out[i] = min(max(step, 0.0), u[i])


@kernel
def line_search(f, q, alpha, u, sigma, slope, curvature):  # type: ignore[no-untyped-def]
    """Return the t > 0 where phi'(t) = slope + curvature t - sum_i q_i a_i(t) is 0.

    a_i(t) = clip(alpha_i + sigma_i (1 - f_i - t q_i), 0, u_i). phi' is continuous, piecewise linear and increasing:
    Newton's method from a bracket ends at the root in finitely many steps.
    """
    low, high = 0.0, np.inf
    t = 1.0
    for _ in range(100):
        value, growth = slope + curvature * t, curvature
        for i in range(f.size):
            step = alpha[i] + sigma[i] * (1.0 - f[i] - t * q[i])
            if step <= 0.0:
                continue
            if step >= u[i]:
                value -= q[i] * u[i]
            else:
                value -= q[i] * step
                growth += sigma[i] * q[i] * q[i]
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
