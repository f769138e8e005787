"""The intersection test: w* lies in the balls of bt1 and of bt2, so in both (``maths.intersection``)."""

from __future__ import annotations

from pipeline.maths.certified_pair import CertifiedPair
from pipeline.maths.region import Region
from pipeline.maths.rules import bt1, bt2
from pipeline.maths.rules.contract import Rule


class IntersectionTest(Rule):
    """Two balls; never looser than either."""

    name = "it"
    needs_signs = True
    made_of = ("bt1", "bt2")

    def _region(self, pair: CertifiedPair, c: float) -> Region:
        return Region((bt1.ball(pair, c), bt2.ball(pair, c)), pair.span)


RULE = IntersectionTest()
