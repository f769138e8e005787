"""Sums over columns of either label apart: what signs cancel in a margin is there in its rounding.

With coefficients a_j >= 0 the rows' sums over columns with y_j = 1 and with y_j = -1 are kept in bins of their own, so
that sum_j y_j a_j K_ij is their difference and A_i = sum_j a_j K_ij, which bounds the rounding of both, their total.
"""

from __future__ import annotations

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.binned import Binned, Bins, lost_in
from pipeline.passes.kernel_sums import Wanted
from pipeline.working.state import RowState

Some = slice | np.ndarray


@dataclass(frozen=True)
class Sides:
    """The sums over columns labelled 1, and over those labelled -1."""

    positive: Binned
    negative: Binned

    @classmethod
    def empty(cls, state: RowState, bins: Bins) -> Sides:
        """Return sums of nothing."""
        return cls(*(Binned(bins, state.empty(), state.empty()) for _ in range(2)))

    def copied(self, state: RowState) -> Sides:
        """Return sums to go on from, with arrays of their own."""
        made = Sides.empty(state, self.positive.bins)
        for ours, theirs in ((made.positive, self.positive), (made.negative, self.negative)):
            ours.first[:], ours.second[:] = theirs.first, theirs.second
        return made

    def wanted(self, state: RowState, coefficients: np.ndarray) -> list[Wanted]:
        """Return what a pass is to add: the columns of rows with these coefficients, each to its side."""
        sides = ((1, self.positive), (-1, self.negative))
        return [Wanted(np.where(state.labels == label, coefficients, 0.0), into) for label, into in sides]

    def lost(self, coefficients: np.ndarray) -> float:
        """Bound what bins lose of a row's sums over the columns whose coefficients are not 0."""
        return lost_in(self.positive.bins, int(np.count_nonzero(coefficients)))

    def difference(self, some: Some) -> np.ndarray:
        """Return sum_j y_j a_j K_ij of some rows."""
        return self.positive.values(some) - self.negative.values(some)

    def total(self, some: Some) -> np.ndarray:
        """Return sum_j a_j K_ij of some rows."""
        return self.positive.values(some) + self.negative.values(some)
