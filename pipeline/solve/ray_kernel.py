"""The best primal point on the ray through w_alpha.

Any w may stand beside alpha in the gap. For w = s w_alpha, with f = Z w_alpha,

    gap(s) = (s - 1)^2 |w_alpha|^2 / 2 + sum_i u_i max(0, 1 - s f_i) - alpha_i (1 - s f_i),

convex in s, its slope a straight line that jumps by u_i f_i at every s = 1/f_i > 0. Two cases where s = 1 is poor: a
start at rho times the solution at C/rho, where s = 1/rho leaves the gap quadratic in rho - 1; and a large C with no
alpha at its bound, where a small s - 1 lifts all margins above 1.
"""

from __future__ import annotations

import numpy as np

from pipeline.jit import kernel


@kernel
def best_scale(rows, f, alpha, u, size):  # type: ignore[no-untyped-def]
    """Return (gap(s), s) at the best s >= 0 over the listed rows; ``size`` is |w_alpha|^2.

    The root of the slope is found by halving the list of jumps around it, in O(rows) expected.
    """
    if size <= 0.0:
        return np.inf, 1.0
    left = np.empty(rows.size + 1, np.int64)
    count, slope = 0, 0.0
    for i in rows:
        left[count] = i
        count += f[i] > 0.0
        slope -= 0.0 if f[i] > 0.0 else (u[i] - alpha[i]) * f[i]
    s = -1.0
    while count > 0:
        middle = f[left[count // 2]]
        below, jump = (1.0 / middle - 1.0) * size + slope, 0.0
        for k in range(count):
            i = left[k]
            below += (alpha[i] - (0.0 if f[i] > middle else u[i])) * f[i]
            jump += u[i] * f[i] if f[i] == middle else 0.0
        if below <= 0.0 <= below + jump:
            s = 1.0 / middle
            break
        kept = 0
        for k in range(count):
            i = left[k]
            stays = f[i] > middle if below > 0.0 else f[i] < middle
            slope += 0.0 if stays else (alpha[i] - (u[i] if below > 0.0 else 0.0)) * f[i]
            left[kept] = i
            kept += stays
        count = kept
    if s < 0.0:
        s = max(0.0, 1.0 - slope / size)
    gap = (s - 1.0) ** 2 * size / 2
    for i in rows:
        slack = 1.0 - s * f[i]
        gap += ((u[i] if slack > 0.0 else 0.0) - alpha[i]) * slack
    return gap, s
