"""What a screening rule is.

needs   ``needs_signs``: the certified pair must have the signs' vector (one more product a row in the certifying
        pass: 8 bytes a row and 8 a feature, which ``budget`` counts for every rule)
check   a pair without the signs that are needed is an error of the caller
run     ``region``: what holds w* at any C, below the pair's or above it; an empty region proves nothing
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pipeline.maths.certified_pair import CertifiedPair
from pipeline.maths.region import Region


class Rule(ABC):
    """A rule; its module holds the one object there is as ``RULE``."""

    name: ClassVar[str]
    needs_signs: ClassVar[bool] = False
    made_of: ClassVar[tuple[str, ...]] = ()  # the rules that its balls are, if there are several
    at_its_own_c: ClassVar[str] = "gap"  # the rule by which a pair of this C, which is not good enough yet, is screened

    def region(self, pair: CertifiedPair, c: float) -> Region:
        """Return the region that holds w* at C = ``c``."""
        if self.needs_signs and pair.signs_cost is None:
            raise ValueError(f"{self.name} needs a reference with the vector of the signs")
        return self._region(pair, c)

    @abstractmethod
    def _region(self, pair: CertifiedPair, c: float) -> Region:
        """Return the region, of a pair that was checked."""
