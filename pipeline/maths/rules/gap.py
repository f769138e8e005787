"""The dynamic ball: a pair's own, at its own C; elsewhere it proves nothing."""

from __future__ import annotations

from pipeline.maths.certified_pair import CertifiedPair
from pipeline.maths.region import Region
from pipeline.maths.rules import bt1
from pipeline.maths.rules.contract import Rule


class GapBall(Rule):
    """bt1's ball at rho = 1: the radius goes to 0 with the gap."""

    name = "gap"

    def _region(self, pair: CertifiedPair, c: float) -> Region:
        return Region((bt1.ball(pair, c),) if c == pair.c else (), pair.span)


RULE = GapBall()
