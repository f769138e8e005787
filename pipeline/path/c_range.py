"""Which C float64 can compute with, for given rows and costs: known before any training, refused in one line.

For every feasible alpha |w_alpha| <= C R with R = sum c_i |z_i|, and P at w = 0 is C sum c_i. Squares of the first, its
product with the longest row, and the second must not overflow; a box C c_i must not underflow. The limits leave a
factor of 10^8 to sums of squares, and are far from anything that scaled features and sensible C come to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from pipeline.errors import SpecError
from pipeline.working.state import ByRow, RowState

LEAST, MOST = 1e-300, 1e300  # of float64's 2e-308 to 2e308
MOST_LENGTH = 1e150  # of a vector whose square is added up


class Range:
    """The C that can be computed with on these rows, from ``low`` to ``high``."""

    def __init__(self, state: RowState) -> None:
        cost = reach = longest = 0.0
        least = math.inf
        for sums, extremes in state.each(_extent, state.costs, state.norms):
            cost, reach = cost + sums[0], reach + sums[1]
            longest, least = max(longest, extremes[0]), min(least, extremes[1])
        product = longest * reach  # bounds z_i . s, and so 1/C_min
        tops = (MOST / most if most else math.inf for most in (cost, MOST / MOST_LENGTH * reach, product))
        self.low, self.high = max(LEAST, LEAST / least), min(MOST, *tops)
        possible = math.isfinite(cost) and longest <= MOST_LENGTH and product <= MOST and self.low < self.high
        if not possible:
            raise SpecError(
                f"float64 has no room for these rows and costs (the longest row has |x| = {longest:.3g}, costs are "
                f"from {least:.3g} and add up to {cost:.3g}); scale the features and the weights"
            )

    def check(self, values: Iterable[float]) -> None:
        """Raise SpecError for the first C that is outside."""
        for c in values:
            if not self.low <= c <= self.high:
                raise SpecError(
                    f"C = {c:g} is out of float64's range for these rows and costs, which is from {self.low:.3g} to "
                    f"{self.high:.3g}; use another C, or scale the features"
                )


def _extent(part: slice, costs: ByRow, norms: ByRow) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return sum c_i and sum c_i |z_i| of some rows, the longest |z_i| and the smallest c_i."""
    used = costs[part] > 0
    cost, norm = costs[part][used], norms[part][used]
    with np.errstate(over="ignore", invalid="ignore"):
        sums = float(cost.sum()), float((cost * norm).sum())
    return sums, (float(norm.max(initial=0.0)), float(cost.min(initial=math.inf)))
