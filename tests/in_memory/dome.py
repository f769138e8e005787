"""The dome test: one region for every C in [C_a, C_b], from the exact optimum w_a at C_a.

|w*_C| grows with C, so |w*_C|^2 <= B for any B >= |w*_(C_b)|^2; and optimality of w_a at C_a gives w_a . w*_C >= A =
|w_a|^2. The region {|w|^2 <= B, w_a . w >= A} is a dome, over which (both constraints in the same normalisation)

    max z_i . w = sqrt(B) |z_i|                                                if z_i . w_a / |z_i| >= A / sqrt(B),
                  z_i . w_a + sqrt((B - A)/A (A |z_i|^2 - (z_i . w_a)^2))      otherwise,

and min z_i . w = -max (-z_i) . w. The paper states it with |w|^2 in one constraint and |w|^2/2 in the other,
which cuts off part of the region. It needs an exact w_a: a rule to compare with, never the default.
"""

from __future__ import annotations

import numpy as np


def dome_bounds(f: np.ndarray, norms: np.ndarray, a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds of z_i . w*_C for C in [C_a, C_b]; f = z_i . w_a, a = |w_a|^2 <= b."""
    if not 0.0 <= a <= b:
        raise ValueError(f"the dome needs 0 <= A <= B, not A = {a!r}, B = {b!r}")
    return -_highest(-f, norms, a, b), _highest(f, norms, a, b)


def _highest(f: np.ndarray, norms: np.ndarray, a: float, b: float) -> np.ndarray:
    ball = np.sqrt(b) * norms
    if a == 0.0:
        return ball
    tilted = f + np.sqrt((b - a) / a * np.maximum(0.0, a * norms * norms - f * f))
    return np.where(f * np.sqrt(b) >= a * norms, ball, tilted)
