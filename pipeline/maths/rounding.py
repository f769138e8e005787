"""How far rounding can carry a float64 result from the exact one: what "safe" has to allow for.

u = 2^-53 is the unit roundoff. A sum or dot product of k terms, in any order, is within k u / (1 - k u) times the sum
of the terms' absolute values of the exact result (Higham, Accuracy and Stability of Numerical Algorithms, section
3.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.jit import inline, kernel

UNIT = 2.0**-53


def gamma(terms: Any) -> Any:
    """Return k u / (1 - k u), with a term to spare for the factors' own rounding."""
    return (terms + 2) * (UNIT * (1 + 2**-20))


def product_error(lengths: np.ndarray, norms: np.ndarray, size: float) -> np.ndarray:
    """Bound |computed - exact| of z_i . v for rows of ``lengths`` nonzeros and norms |z_i|, where |v| <= ``size``.

    By Cauchy-Schwarz sum_j |z_ij v_j| <= |z_i| |v|, whatever the magnitudes within the row.
    """
    return gamma(lengths) * norms * (size * (1 + 1e-12))


@inline
def _add(total, error, value):  # type: ignore[no-untyped-def]
    """Return total + value as it rounds, and the error so far plus what was lost now (Neumaier 1974)."""
    new = total + value
    if abs(total) >= abs(value):
        return new, error + ((total - new) + value)
    return new, error + ((value - new) + total)


@kernel
def compensated_sum(x):  # type: ignore[no-untyped-def]
    """Return (s, e) with s + e = sum(x) to about twice the working precision."""
    total, error = 0.0, 0.0
    for value in x:
        total, error = _add(total, error, value)
    return total, error


@kernel
def compensated_dot(x, y):  # type: ignore[no-untyped-def]
    """Return x . y with an error of at most about 2 u |x| |y|, whatever the length."""
    total, error = 0.0, 0.0
    for k in range(x.size):
        total, error = _add(total, error, x[k] * y[k])
    return total + error
