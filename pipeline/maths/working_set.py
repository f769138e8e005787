"""Which rows to solve for: those whose margin at C is likely to be near 1, and those that have to move.

A rule bounds z_i . w* for the worst direction; in many dimensions w* is far from the worst one for nearly every row. So
the working set is a bet on where the margins will be. They are expected where the last two points of the path lead,

    e_i = f_i + t (f_i - f_i at the point before),    t = log(C/C_ref)/log(C_ref/C_before),

give or take a band b |z_i|. A row expected above 1 with alpha_i = 0, or below 1 with alpha_i = u_i, stays where it is,
frozen; all others that are not proven to stay are solved for. The certificate settles the bet: frozen rows are part of
the gap like all others. b = theta times the error of the last step's expectation, and theta learns from what the frozen
rows have cost.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import kernel
from pipeline.maths.verdicts import KEEP, UPPER, ZERO

# Plain choices, none of which a certificate depends on: a bet that is lost costs a round. With FIRST_BAND, LEAST_THETA,
# COSTLY, CHEAP or FURTHEST halved or doubled, paths on four data sets took 0.88 to 1.11 times the visits of dcd (on one
# of them up to 1.66) and 0.98 to 1.04 times the passes (``python -m tests.bench.choices``); the others were not tried.
FIRST_BAND = 0.3  # of the ball's radius, as long as there is nothing to learn from
FIRST_THETA = 3.0  # three times the last error: few rows are further off
LEAST_THETA, MOST_THETA = 0.3, 100.0  # so that theta finds back within a few steps when the path changes its ways
COSTLY, CHEAP = 0.35, 0.15  # the frozen rows' share of the gap: the solver has its own (``SHARE_FOR_SOLVER``)
WIDER, MUCH_WIDER, NARROWER = 1.3, 1.7, 0.85  # after a share above COSTLY, above all that is allowed, below CHEAP
FURTHEST = 2.0  # steps: margins go straight on for about as long as they have been seen to


@dataclass(frozen=True)
class Outlook:
    """What is known for the next step: the C of the point before, how wrong the last expectation was, and theta."""

    theta: float = FIRST_THETA
    error: float | None = None
    c_before: float | None = None

    def band(self, radius: float) -> float:
        """Return b, at most the radius of the ball: beyond that there is proof."""
        return min(radius, self.theta * self.error) if self.error else FIRST_BAND * radius

    def stretch(self, c_ref: float, c: float) -> float:
        """Return t, 0 if there is no point before; far-away C are not trusted."""
        if self.c_before is None or self.c_before == c_ref:
            return 0.0
        return min(FURTHEST, max(0.0, math.log(c / c_ref) / math.log(c_ref / self.c_before)))

    def after_pass(self, share: float) -> Outlook:
        """Learn from a certificate: ``share`` is the frozen rows' part of the gap over the gap that is allowed."""
        theta = self.theta
        if share > COSTLY:
            theta = min(MOST_THETA, theta * (WIDER if share < 1.0 else MUCH_WIDER))
        elif share < CHEAP:
            theta = max(LEAST_THETA, theta * NARROWER)
        return replace(self, theta=theta)


@kernel
def expect(f, now, before, stretch, expected):  # type: ignore[no-untyped-def]
    """Write where margins are expected that are f, when others went from ``before`` to ``now``."""
    for i in range(f.size):
        expected[i] = f[i] + stretch * (now[i] - before[i]) if stretch > 0.0 else f[i]


@kernel
def surprise(f, expected, norms, u):  # type: ignore[no-untyped-def]
    """Return the sum of ((f_i - e_i)/|z_i|)^2 over the rows whose margin is between 0 and 2, and their number."""
    total, count = 0.0, 0
    for i in range(f.size):
        if u[i] > 0.0 and norms[i] > 0.0 and abs(f[i] - 1.0) < 1.0:
            total += ((f[i] - expected[i]) / norms[i]) ** 2
            count += 1
    return total, count


@kernel
def classify(bounds, centre, widths, alpha, box, modes, verdicts, chosen):  # type: ignore[no-untyped-def]
    """Write the rows' verdicts (KEEP throughout unless proving) and whether they are in the working set.

    ``bounds`` is (lower, upper), ``widths`` is (b, norms), ``box`` is (C, costs), ``modes`` is (proving, betting). Rows
    with u_i = 0 (left out of training) have alpha_i = 0 for certain. Returns how many others are ZERO, and UPPER.
    """
    (lower, upper), (band, norms), (c, costs), (proving, betting) = bounds, widths, box, modes
    zero = at_bound = 0
    for i in range(alpha.size):
        u = c * costs[i]
        if u == 0.0:
            verdicts[i], chosen[i] = ZERO, False
            continue
        verdict = KEEP
        if proving:
            verdict = UPPER if upper[i] < 1.0 else ZERO if lower[i] > 1.0 else KEEP
        likely = verdict
        if verdict == KEEP and betting:
            width = band * norms[i]
            likely = UPPER if centre[i] + width < 1.0 else ZERO if centre[i] - width > 1.0 else KEEP
        verdicts[i] = verdict
        zero += verdict == ZERO
        at_bound += verdict == UPPER
        at_home = (likely == ZERO and alpha[i] == 0.0) or (likely == UPPER and alpha[i] == u)
        chosen[i] = not at_home
    return zero, at_bound


def foremost(slack: np.ndarray, alpha: np.ndarray, u: np.ndarray, seen: np.ndarray, limit: int) -> np.ndarray:
    """Tell which ``limit`` of some rows to solve for, if all are too many: those with the largest gradient.

    Rows that were solved for last (``seen``) may have half of the places: without them what one round moves too far the
    next one moves back. The other half is shared by rows that are to go up and rows that are to go down. By their parts
    of the gap, u_i or alpha_i times as much, it takes up to twice as many rounds where several sweeps are needed.
    """
    part = np.where(slack > 0.0, np.where(alpha < u, slack, 0.0), np.where(alpha > 0.0, -slack, 0.0))
    order, taken = np.argsort(-part, kind="stable"), np.zeros(slack.size, np.bool_)
    half, up = limit // 2, slack > 0.0
    for some, most in ((seen & (part > 0.0), half), (up, half // 2), (~up, half // 2), (np.ones_like(taken), limit)):
        free = order[some[order] & ~taken[order]]
        taken[free[: min(most, limit - int(np.count_nonzero(taken)))]] = True
    return taken


@kernel
def gap_outside(f, alpha, c, costs, chosen):  # type: ignore[no-untyped-def]
    """Return the part of the gap at w = w_alpha that rows outside the working set have.

    And how many rows are inside their box, and how many at its top.
    """
    total, free, upper = 0.0, 0, 0
    for i in range(f.size):
        u = c * costs[i]
        free += 0.0 < alpha[i] < u
        upper += (alpha[i] == u) & (u > 0.0)
        if not chosen[i]:
            slack = 1.0 - f[i]
            total += (u - alpha[i]) * slack if slack > 0.0 else -alpha[i] * slack
    return total, free, upper
