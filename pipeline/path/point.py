"""A point of the path: (w, alpha) at C with its certificate, in any space.

It owns the rows' products with the few vectors that its reference's span has, as its pair owns alpha: what it proves
stays proven, whoever certifies what afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.ball import Combination
from pipeline.maths.certificate import Certificate
from pipeline.maths.certified_pair import CertifiedPair
from pipeline.maths.eps_grid import Reach
from pipeline.maths.intersection import Counts
from pipeline.maths.region import Region
from pipeline.maths.rounding import SAFE
from pipeline.maths.rules import rule_named
from pipeline.working.state import ByRow, RowState


@dataclass(frozen=True)
class CertifiedPoint:
    """A certified pair, with the rows' products with the vectors of the reference's span, w first."""

    c: float
    pair: Any
    reference: CertifiedPair
    products: tuple[ByRow, ...]
    state: RowState

    @property
    def seen(self) -> Seen:
        """What the point knows of every row."""
        return Seen(self.products, self.state)

    @property
    def margins(self) -> ByRow:
        """The rows' products with w."""
        return self.products[0]

    @property
    def drift(self) -> float:
        """A bound on what rounding has done to w_alpha."""
        return 0.0

    @property
    def read(self) -> float | None:
        """The share of the data that was read to certify the pair; None where that is not told."""
        return None

    @property
    def before(self) -> ByRow | None:
        """The margins of the point before, where they were made together with these."""
        return None

    @property
    def unit(self) -> float:
        """The length that ``reach`` is measured in."""
        return self.reference.span.unit

    @property
    def certificate(self) -> Certificate:
        """What is proven of the pair itself."""
        return self.reference.certificate

    @cached_property
    def reach(self) -> Reach:
        """What the eps-path needs to know, all on the safe side, in the units of the reference's span."""
        ref, span = self.reference, self.reference.span
        sizes = (span.size(ref.w), span.size(ref.w_alpha) + self.drift / span.unit)
        square, alpha_square = (size * size * SAFE for size in sizes)
        loss, alpha = ref.energies
        return Reach(self.c, square, alpha / SAFE, loss / self.c * SAFE, alpha_square)

    def proof(self, c: float, rule: str) -> PointProof:
        """Return what ``rule`` proves about the rows at C = ``c``."""
        return PointProof(self.seen, rule_named(rule).region(self.reference, c))


@dataclass(frozen=True)
class Seen:
    """What a point knows of every row: no more than proofs need, so that it can go where the rows are."""

    products: tuple[ByRow, ...]
    state: RowState

    def terms(self, part: slice, centres: Sequence[Combination]) -> Sequence[np.ndarray]:
        """Return, for some rows, of how many terms a dot product is that is as inexact as theirs with each centre."""
        return [self.state.lengths[part]] * len(centres)


@dataclass(frozen=True)
class PointProof:
    """A region that holds w* at some C, with the products that turn it into bounds of z_i . w*."""

    seen: Seen
    region: Region

    @property
    def proves(self) -> bool:
        """Whether there is any bound at all."""
        return bool(self.region.balls)

    @property
    def radius(self) -> float:
        """The radius of the region's first ball."""
        return self.region.radius

    def bounds(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds for some rows."""
        return self._bounds(part, None)[:2]

    def for_verdicts(self, part: slice) -> tuple[np.ndarray, np.ndarray, Counts]:
        """Return bounds that give the same verdicts, sooner; of two balls also how many rows each decides alone."""
        return self._bounds(part, self.seen.state.costs[part])

    def _bounds(self, part: slice, costs: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, Counts]:
        some, norms = [p[part] for p in self.seen.products], self.seen.state.norms[part]
        terms = self.seen.terms(part, [ball.centre for ball in self.region.balls])
        return self.region.bounds(some, norms, terms, costs)
