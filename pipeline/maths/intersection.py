"""The intersection test: bounds of z_i . w over two balls |w - m1| <= r1 and |w - m2| <= r2 at once.

For every theta in [0, 1] a point of both balls satisfies (1-theta)|w-m1|^2 + theta|w-m2|^2 <= (1-theta) r1^2 + theta
r2^2, which is again a ball:

    centre (1-theta) m1 + theta m2,    radius^2 = (1-theta) r1^2 + theta r2^2 - theta (1-theta) p^2,    p = |m1 - m2|.

So every theta gives a safe bound, and by Lagrangian duality the best theta gives the exact one, the three-case
formula of Ogawa et al. (2014). With t_i = z_i . (m1 - m2)/(p |z_i|), zeta = (p^2 + r2^2 - r1^2)/(2p),
kappa^2 = r2^2 - zeta^2 the best one for the lower (upper) bound is

    1 - theta = clip((zeta +/- kappa t_i / sqrt(1 - t_i^2)) / p, 0, 1),

0 and 1 being the cases in which one ball alone decides. Rounding in theta costs tightness, never safety. Degenerate
cases (nested balls, equal centres, a zero radius, a zero row, kappa^2 < 0 by rounding) end at theta 0 or 1, and both
of these are always tried: the result is never looser than either ball.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pipeline.jit import inline, kernel
from pipeline.maths.ball import Ball, Span, centre_products, norm_in, not_below_zero, row_bounds
from pipeline.maths.rounding import UNIT


@inline
def _share(zeta, kappa, slope, p):  # type: ignore[no-untyped-def]
    """Return the best 1 - theta, the first ball's share."""
    share = (zeta + kappa * slope) / p
    return min(1.0, max(0.0, share))


@inline
def _half_width(share, first, second, square_low, blur, floor):  # type: ignore[no-untyped-def]
    """Return the radius of the ball at that share; squared radii come widened, p^2 comes as a lower bound."""
    square = share * first + (1.0 - share) * second - share * (1.0 - share) * square_low
    return math.sqrt((0.0 if square < 0.0 else square) + floor) + blur


@kernel
def _intersect(centres, norms, lengths, costs, balls, shape, lower, upper):  # type: ignore[no-untyped-def]
    """Write the bounds; return how many rows with a cost each ball alone proves ZERO and UPPER, where costs are given.

    With costs, bounds are for verdicts: rows that a ball decides keep that ball's.
    """
    (a, b), (one_lengths, two_lengths), (one, two) = centres, lengths, balls
    unit, meet, first, second, p, square_low, zeta, kappa, blur, size, floor = shape
    one_zero = one_upper = two_zero = two_upper = 0
    for i in range(a.size):
        norm = norm_in(unit, norms[i])
        low, high = row_bounds(a[i], norm, one_lengths[i], one[0], one[1])
        other_low, other_high = row_bounds(b[i], norm, two_lengths[i], two[0], two[1])
        if costs.size:  # without branches: which side a row is on cannot be guessed
            counts = costs[i] > 0.0
            one_zero += counts & (low > 1.0)
            one_upper += counts & (high < 1.0)
            two_zero += counts & (other_low > 1.0)
            two_upper += counts & (other_high < 1.0)
        low = other_low if other_low > low or math.isnan(low) else low  # of a number and a nan, the number
        high = other_high if other_high < high or math.isnan(high) else high
        lower[i], upper[i] = low, high
        if not meet or norm == 0.0 or (costs.size and (low > 1.0 or high < 1.0)):
            continue
        t = (a[i] - b[i]) / (p * norm)
        t = min(1.0, max(-1.0, t))
        slope = t / math.sqrt(max(1.0 - t * t, 1e-300))
        allowance = (max(one_lengths[i], two_lengths[i]) + 4) * (1.1 * UNIT)
        fixed = norm * size * allowance + 4 * UNIT * (abs(a[i]) + abs(b[i]))
        share = _share(zeta, kappa, slope, p)
        width = norm * (1.0 + allowance) * _half_width(share, first, second, square_low, blur, floor) + fixed
        bound = share * a[i] + (1.0 - share) * b[i] - width
        if bound > low:  # a nan changes nothing
            lower[i] = bound
        share = _share(zeta, -kappa, slope, p)
        width = norm * (1.0 + allowance) * _half_width(share, first, second, square_low, blur, floor) + fixed
        bound = share * a[i] + (1.0 - share) * b[i] + width
        if bound < high:
            upper[i] = bound
    return (one_zero, one_upper), (two_zero, two_upper)


Counts = list[tuple[int, int]]  # ball by ball: how many rows it alone proves ZERO, and how many UPPER


def intersection_bounds(
    one: Ball,
    two: Ball,
    span: Span,
    products: Sequence[np.ndarray],
    norms: np.ndarray,
    lengths: Sequence[np.ndarray],
    costs: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, Counts]:
    """Return bounds of z_i . w* over both balls, never looser than either ball's; ``lengths`` are ball by ball.

    With ``costs`` they are for verdicts: rows that a ball decides keep that ball's bounds, as what is decided needs no
    better ones, and it is counted how many rows that have a cost each ball decides alone.
    """
    centres = centre_products(one, products), centre_products(two, products)
    lower, upper = np.empty(norms.size), np.empty(norms.size)
    balls = (one.radius, one.size), (two.radius, two.size)
    about = norms, tuple(lengths), np.empty(0) if costs is None else costs
    found = _intersect(centres, *about, balls, _shape(one, two, span), lower, upper)
    return lower, upper, [(int(zero), int(at_bound)) for zero, at_bound in found]


def _shape(one: Ball, two: Ball, span: Span) -> tuple[float | bool, ...]:
    """Return what the third case needs, and whether the balls' surfaces meet: else one ball alone decides."""
    difference = tuple(a - b for a, b in zip(one.centre, two.centre, strict=True))
    square = span.square(difference)
    p, r1, r2 = math.sqrt(square), one.radius, two.radius
    if not (p > abs(r1 - r2) and p > 1e-7 * (r1 + r2)):
        return span.unit, False, *([0.0] * 9)
    first, second = (not_below_zero(ball.radius_squared) + ball.slack for ball in (one, two))
    scale = span.size(one.centre) + span.size(two.centre)
    blur = max(one.blur, two.blur)
    # The centres that are meant may be nearer to each other: p'^2 >= p^2 - 2 p |drift of their difference|.
    uncertain = (16 * UNIT + span.doubt) * scale * scale + 2 * p * span.blur(difference) * (1 + 8 * UNIT)
    zeta = (square + second - first) / (2 * p)
    kappa = math.sqrt(not_below_zero(second - zeta * zeta))
    floor = 8 * UNIT * (first + second + square)
    return span.unit, True, first, second, p, not_below_zero(square - uncertain), zeta, kappa, blur, scale, floor
