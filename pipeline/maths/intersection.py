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
from pipeline.maths.ball import TINY, Ball, Span, ball_bounds, centre_products, not_below_zero
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
def _intersect(a, b, norms, lengths, shape, sharp, lower, upper):  # type: ignore[no-untyped-def]
    unit, first, second, p, square_low, zeta, kappa, blur, size, floor = shape
    for i in range(a.size):
        if norms[i] == 0.0 or (not sharp and (lower[i] > 1.0 or upper[i] < 1.0)):
            continue
        norm = norms[i] * unit + TINY
        t = (a[i] - b[i]) / (p * norm)
        t = min(1.0, max(-1.0, t))
        slope = t / math.sqrt(max(1.0 - t * t, 1e-300))
        allowance = (lengths[i] + 4) * (1.1 * UNIT)
        fixed = norm * size * allowance + 4 * UNIT * (abs(a[i]) + abs(b[i]))
        share = _share(zeta, kappa, slope, p)
        width = norm * (1.0 + allowance) * _half_width(share, first, second, square_low, blur, floor) + fixed
        bound = share * a[i] + (1.0 - share) * b[i] - width
        if bound > lower[i]:  # noqa: PLR1730 - a nan changes nothing
            lower[i] = bound
        share = _share(zeta, -kappa, slope, p)
        width = norm * (1.0 + allowance) * _half_width(share, first, second, square_low, blur, floor) + fixed
        bound = share * a[i] + (1.0 - share) * b[i] + width
        if bound < upper[i]:  # noqa: PLR1730
            upper[i] = bound


def intersection_bounds(
    one: Ball,
    two: Ball,
    span: Span,
    products: Sequence[np.ndarray],
    norms: np.ndarray,
    lengths: Sequence[np.ndarray],
    sharp: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of z_i . w* over both balls, never looser than either ball's; ``lengths`` are ball by ball.

    Not ``sharp``, rows that a ball decides keep that ball's bounds: what is decided needs no better ones.
    """
    lower, upper = ball_bounds(one, products, norms, lengths[0], span.unit)
    other_lower, other_upper = ball_bounds(two, products, norms, lengths[1], span.unit)
    np.fmax(lower, other_lower, out=lower)  # of a number and a nan, the number
    np.fmin(upper, other_upper, out=upper)
    difference = tuple(a - b for a, b in zip(one.centre, two.centre, strict=True))
    square = span.square(difference)
    p, r1, r2 = math.sqrt(square), one.radius, two.radius
    if not (p > abs(r1 - r2) and p > 1e-7 * (r1 + r2)):
        return lower, upper
    first, second = (not_below_zero(ball.radius_squared) + ball.slack for ball in (one, two))
    scale = span.size(one.centre) + span.size(two.centre)
    blur = max(one.blur, two.blur) + span.blur(difference)
    uncertain = (16 * UNIT + span.doubt) * scale * scale
    zeta = (square + second - first) / (2 * p)
    kappa = math.sqrt(not_below_zero(second - zeta * zeta))
    floor = 8 * UNIT * (first + second + square)
    shape = (span.unit, first, second, p, not_below_zero(square - uncertain), zeta, kappa, blur, scale, floor)
    _intersect(
        centre_products(one, products),
        centre_products(two, products),
        norms,
        lengths[0] if lengths[0] is lengths[1] else np.maximum(*lengths),
        shape,
        sharp,
        lower,
        upper,
    )
    return lower, upper
