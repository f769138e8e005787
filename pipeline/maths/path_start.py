"""Where the path starts: below C_min every row is at its upper bound and the solution is known.

With s = sum_j c_j z_j, alpha_i = u_i = C c_i for all i gives w = C s, which is optimal as long as no margin exceeds 1:

    C z_i . s <= 1 for all i,    so    C_min = 1 / max_i z_i . s.

max_i z_i . s > 0 unless s = 0, because sum_i c_i z_i . s = |s|^2. If s = 0, w* = 0 is the solution for every C.
"""

from __future__ import annotations

import math

import numpy as np


def c_min(products: np.ndarray) -> float:
    """Return C_min from the products z_i . s of all rows (or of any set that contains the largest); inf if s = 0."""
    largest = float(products.max(initial=0.0))
    return 1.0 / largest if largest > 0.0 else math.inf


def start(c: float, costs: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the solution (w, alpha) for any C <= C_min."""
    return c * s, c * costs
