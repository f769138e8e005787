"""The best primal point on the ray through w_alpha.

Any w may stand beside alpha in the gap. For w = s w_alpha, with f = Z w_alpha,

    gap(s)  = (s - 1)^2 |w_alpha|^2 / 2 + sum_i u_i max(0, 1 - s f_i) - alpha_i (1 - s f_i),
    gap'(s) = (s - 1) |w_alpha|^2 + sum_i alpha_i f_i - sum_{s f_i < 1} u_i f_i,

convex in s, its slope a straight line that jumps by u_i f_i at every s = 1/f_i > 0. Two cases where s = 1 is poor: a
start at rho times the solution at C/rho, where s = 1/rho leaves the gap quadratic in rho - 1; and a large C with no
alpha at its bound, where a small s - 1 lifts all margins above 1.
"""

from __future__ import annotations

import numpy as np

from pipeline.jit import inline, kernel

FIRST_STEP, GROWTH = 1e-3, 8.0


@inline
def _slope(s, f, push, size, base):  # type: ignore[no-untyped-def]
    """Return gap'(s) where ``base`` is the sum of alpha_i f_i and push_i = u_i f_i."""
    total = (s - 1.0) * size + base
    for k in range(f.size):
        total -= push[k] if s * f[k] < 1.0 else 0.0
    return total


@inline
def _bracket(f, push, size, base):  # type: ignore[no-untyped-def]
    """Return (low, high) with gap'(low) <= 0 <= gap'(high), close to 1 where possible; low is 0 where none is."""
    low = high = 1.0
    step = FIRST_STEP
    if _slope(1.0, f, push, size, base) > 0.0:
        while low > 0.0:
            low = max(0.0, 1.0 - step)
            if _slope(low, f, push, size, base) <= 0.0:
                break
            high, step = low, GROWTH * step
    else:
        while True:
            high = 1.0 + step
            if _slope(high, f, push, size, base) >= 0.0:
                break
            low, step = high, GROWTH * step
    return low, high


@kernel
def best_scale(rows, f, alpha, u, size):  # type: ignore[no-untyped-def]
    """Return (gap(s), s) at the best s >= 0 over the listed rows; ``size`` is |w_alpha|^2.

    The root of the slope is put into a bracket and then found by halving the list of jumps in there.
    """
    if not 0.0 < size < np.inf:
        return np.inf, 1.0
    at, push, base = np.empty(rows.size), np.empty(rows.size), 0.0
    for k in range(rows.size):
        i = rows[k]
        at[k], push[k] = f[i], u[i] * f[i]
        base += alpha[i] * f[i]
    if not np.isfinite(base):
        return np.inf, 1.0
    low, high = _bracket(at, push, size, base)
    jumps, heights = np.empty(rows.size + 1), np.empty(rows.size + 1)
    count, rest = 0, base - size
    for k in range(rows.size):
        inside = (low * at[k] < 1.0) & (high * at[k] >= 1.0)
        rest -= push[k] if (low * at[k] < 1.0) & (not inside) else 0.0
        jumps[count], heights[count] = at[k], push[k]
        count += inside
    s = -1.0
    while count > 0:
        middle = jumps[count // 2]
        above = jump = 0.0
        for k in range(count):
            above += heights[k] if jumps[k] < middle else 0.0
            jump += heights[k] if jumps[k] == middle else 0.0
        after = size / middle + rest - above
        if after - jump <= 0.0 <= after:
            s = 1.0 / middle
            break
        kept = 0
        for k in range(count):
            stays = jumps[k] > middle if after > 0.0 else jumps[k] < middle
            rest -= heights[k] if (not stays) & (after > 0.0) else 0.0
            jumps[kept], heights[kept] = jumps[k], heights[k]
            kept += stays
        count = kept
    if s < 0.0:
        s = max(0.0, -rest / size)
    gap = (s - 1.0) ** 2 * size / 2
    for i in rows:
        slack = 1.0 - s * f[i]
        gap += ((u[i] if slack > 0.0 else 0.0) - alpha[i]) * slack
    return gap, s
