"""Where the path starts: below C_min every row is at its upper bound and the solution is known.

With s = sum_j c_j z_j, alpha_i = u_i = C c_i for all i gives w = C s, which is optimal as long as no margin exceeds 1:

    C z_i . s <= 1 for all i,    so    C_min = 1 / max_i z_i . s.

max_i z_i . s > 0 unless s = 0, because sum_i c_i z_i . s = |s|^2. If s = 0, w* = 0 is the solution for every C.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.maths.rounding import gamma


def c_min(products: np.ndarray, doubt: float = 0.0) -> float:
    """Return C_min from the products z_i . s of all rows (or of any set that contains the largest); inf if s = 0.

    ``doubt`` bounds what rounding can make of a product that is 0 (see ``doubt_by``): rows that cancel leave a residue
    of rounding in s, and a largest product within it means that s = 0 as far as float64 can tell.
    """
    largest = float(products.max(initial=0.0))
    return 1.0 / largest if largest > doubt else math.inf


def doubt_by(longest: float, reach: float, n_rows: int) -> float:
    """Bound |z_i . s| where s is 0 but for rounding: max |z_i| times the rounding of a sum of n rows c_j z_j.

    ``reach`` is sum c_j |z_j|.
    """
    return longest * reach * float(gamma(float(n_rows)))
