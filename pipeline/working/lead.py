"""Where the path leads: alphas go straight on in C as long as no row changes sides.

    lead_i = alpha_i + t (alpha_i - alpha_i before),    t = (C - C_ref)/(C_ref - C_before),    within its box,

and u_i where alpha_i was at its bound. The solver begins at the point between the pair and the lead that has the
highest dual value, so that a lead that is wrong, or far, costs one sum over the rows and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.dataclass import dataclass


@dataclass(frozen=True)
class Lead:
    """The alphas of all rows, by row, at the last two points of a path, and these points' C."""

    c_ref: float
    ref: Any
    c_before: float
    before: Any

    def at(self, c: float, costs: np.ndarray, alpha: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return where alphas of some rows are expected at C, which have these costs and these alphas there."""
        u, t = c * costs, (c - self.c_ref) / (self.c_ref - self.c_before)
        ahead = np.clip(alpha + t * (alpha - before), 0.0, u)
        return np.where(alpha >= self.c_ref * costs, u, ahead)


def towards(start: np.ndarray, lead: np.ndarray, slope: float, curvature: float) -> np.ndarray:
    """Return the point between start and lead with the highest dual value, theta slope - theta^2 curvature/2."""
    if not slope > 0.0:
        return start
    theta = min(1.0, slope / curvature) if curvature > 0.0 else 1.0
    return lead if theta == 1.0 else start + theta * (lead - start)
