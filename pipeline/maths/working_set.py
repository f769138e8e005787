"""Which rows to solve for: those that the proven bounds, shrunk by theta, leave undecided.

A rule proves lower_i <= z_i . w* <= upper_i. The bounds hold for the worst direction; in many dimensions w* is far from
the worst one for nearly every row. So with mid and half the middle and half width of the bounds,

    mid - theta half > 1:  alpha_i = 0 is likely,      mid + theta half < 1:  alpha_i = u_i is likely,

and the working set is every row for which neither holds, or whose alpha_i is not where it is likely to be. theta = 1 is
the proof itself; a smaller theta is a bet, which the certificate settles: rows outside the working set keep their alpha
and are part of the gap like all others. ``next_theta`` learns from what the bet has cost.
"""

from __future__ import annotations

from pipeline.jit import kernel
from pipeline.maths.verdicts import KEEP, UPPER, ZERO

FIRST_THETA, LEAST_THETA = 0.3, 0.01
COSTLY, CHEAP = 0.35, 0.15


@kernel
def classify(lower, upper, theta, alpha, u, proving, verdicts, chosen):  # type: ignore[no-untyped-def]
    """Write the rows' verdicts (KEEP throughout unless ``proving``) and whether they are in the working set.

    Rows with u_i = 0 (left out of training) have alpha_i = 0 for certain.
    """
    for i in range(lower.size):
        if u[i] == 0.0:
            verdicts[i], chosen[i] = ZERO, False
            continue
        verdict = UPPER if upper[i] < 1.0 else ZERO if lower[i] > 1.0 else KEEP
        likely = verdict
        if verdict == KEEP and theta < 1.0:
            mid, half = (lower[i] + upper[i]) / 2, theta * (upper[i] - lower[i]) / 2
            likely = UPPER if mid + half < 1.0 else ZERO if mid - half > 1.0 else KEEP
        verdicts[i] = verdict if proving else KEEP
        at_home = (likely == ZERO and alpha[i] == 0.0) or (likely == UPPER and alpha[i] == u[i])
        chosen[i] = not at_home


@kernel
def gap_outside(f, alpha, u, chosen):  # type: ignore[no-untyped-def]
    """Return the part of the gap at w = w_alpha that rows outside the working set have."""
    total = 0.0
    for i in range(f.size):
        if not chosen[i]:
            slack = 1.0 - f[i]
            total += (u[i] - alpha[i]) * slack if slack > 0.0 else -alpha[i] * slack
    return total


def next_theta(theta: float, share: float) -> float:
    """Return the next theta: ``share`` is the frozen rows' part of the gap over the gap that is allowed."""
    if share > COSTLY:
        return min(1.0, theta * (1.3 if share < 1.0 else 1.7))
    if share < CHEAP:
        return max(LEAST_THETA, theta * 0.85)
    return theta
