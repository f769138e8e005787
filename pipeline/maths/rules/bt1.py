"""Ball test 1, which is also the DVI test: the ball of (w, rho alpha)."""

from __future__ import annotations

from pipeline.maths.ball import Ball, pair_ball
from pipeline.maths.certified_pair import CertifiedPair
from pipeline.maths.region import Region
from pipeline.maths.rules.contract import Rule


def ball(pair: CertifiedPair, c: float) -> Ball:
    """Return the ball of (w, rho alpha) at C = ``c``.

    With an exact reference m = (C + C_ref)/(2 C_ref) w_ref and r = (C - C_ref)/(2 C_ref) |w_ref|. At C = C_ref it is
    the gap ball: with w = w_alpha it has m = w and r^2 = P - D.
    """
    rho = c / pair.c
    scaled = tuple(rho * a for a in pair.w_alpha)
    loss, alpha_sum = pair.energies
    return pair_ball(pair.span, pair.w, scaled, rho * loss, rho * alpha_sum)


class BallTest1(Rule):
    """One ball, no pass of its own."""

    name = "bt1"

    def _region(self, pair: CertifiedPair, c: float) -> Region:
        return Region((ball(pair, c),), pair.span)


RULE = BallTest1()
