"""Ball test 2: the ball of (w, u_i s_i).

The paper's s-hat is s_i = [m1 . z_i < 1] with the centre m1 of bt1 at C. Any s in [0, 1] is feasible, whatever C it was
chosen for; the path takes [alpha_i = u_i], whose vector costs it a sum over the free rows only.
"""

from __future__ import annotations

from fractions import Fraction

from pipeline.maths.ball import Ball, pair_ball
from pipeline.maths.certified_pair import CertifiedPair
from pipeline.maths.region import Region
from pipeline.maths.rules.contract import Rule


def ball(pair: CertifiedPair, c: float) -> Ball:
    """Return the ball of (w, u_i s_i) at C = ``c``: rho times the last vector of the span is sum u_i s_i z_i."""
    assert pair.signs_cost is not None
    rho = c / pair.c
    w_alpha = (*([0.0] * (len(pair.w) - 1)), rho)
    signed = pair.energy(Fraction(c) * Fraction(pair.signs_cost))
    return pair_ball(pair.span, pair.w, w_alpha, rho * pair.energies[0], signed)


class BallTest2(Rule):
    """One ball, and the signs' vector."""

    name = "bt2"
    needs_signs = True

    def _region(self, pair: CertifiedPair, c: float) -> Region:
        return Region((ball(pair, c),), pair.span)


RULE = BallTest2()
