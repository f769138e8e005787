"""No screening: every row stays undecided."""

from __future__ import annotations

from pipeline.maths.certified_pair import CertifiedPair
from pipeline.maths.region import Region
from pipeline.maths.rules.contract import Rule


class NoRule(Rule):
    """Proves nothing, at any C."""

    name = "none"
    at_its_own_c = "none"

    def _region(self, pair: CertifiedPair, c: float) -> Region:
        del c
        return Region((), pair.span)


RULE = NoRule()
