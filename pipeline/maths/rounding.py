"""How far rounding can carry a float64 result from the exact one: what "safe" has to allow for.

u = 2^-53 is the unit roundoff. A sum or dot product of k terms, in any order, is within k u / (1 - k u) times the sum
of the terms' absolute values of the exact result (Higham, Accuracy and Stability of Numerical Algorithms, section
3.1).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from pipeline.errors import SpecError
from pipeline.jit import inline, kernel

UNIT = 2.0**-53  # float64's unit roundoff
SAFE = 1 + 1e-12  # more than the rounding of norms and of a few operations
LEAST_NORMAL = 2.0**-1022  # below it a product is rounded by up to half of its last bit, 2^-1075, not by a share
UNDERFLOW = 2.0**-1040  # more than the underflows of one term can add up to over 2^31 features, in the Euclidean norm
PLAIN = 1e-250, 1e250  # a product of norms in this range: neither it nor what rounding does to it under- or overflows


def gamma(terms: Any) -> Any:
    """Return k u / (1 - k u), with a term to spare for the factors' own rounding."""
    return (terms + 2) * (UNIT * (1 + 2**-20))


def product_error(lengths: np.ndarray, norms: np.ndarray, size: float) -> np.ndarray:
    """Bound |computed - exact| of z_i . v for rows of ``lengths`` nonzeros and norms |z_i|, where |v| <= ``size``.

    By Cauchy-Schwarz sum_j |z_ij v_j| <= |z_i| |v|, whatever the magnitudes within the row.
    """
    return gamma(lengths) * norms * (size * (1 + 1e-12))


@inline
def add_up(total, error, value):  # type: ignore[no-untyped-def]
    """Return total + value as it rounds, and the error so far plus what was lost now (Neumaier 1974)."""
    new = total + value
    if abs(total) >= abs(value):
        return new, error + ((total - new) + value)
    return new, error + ((value - new) + total)


@kernel
def compensated_dot(x, y):  # type: ignore[no-untyped-def]
    """Return x . y with an error of at most ``dot_error`` times |x| |y|, unless products under- or overflow."""
    total, error = 0.0, 0.0
    for k in range(x.size):
        total, error = add_up(total, error, x[k] * y[k])
    return total + error


def dot_error(size: int) -> float:
    """Bound the error of ``inner`` for vectors of ``size`` entries, as a share of |x| |y|.

    The products' rounding and the result's are a unit each; the compensated sum adds its second order (Neumaier 1974).
    """
    return float(3 * UNIT + gamma(float(size)) ** 2)


def inner(x: np.ndarray, y: np.ndarray, sizes: float) -> Fraction:
    """Return x . y at any magnitude; ``sizes`` is about |x| |y|."""
    if PLAIN[0] < sizes < PLAIN[1]:
        return Fraction(compensated_dot(x, y))
    one, other = exponent(x), exponent(y)
    found = Fraction(compensated_dot(np.ldexp(x, -one), np.ldexp(y, -other)))
    return found * Fraction(2) ** (one + other)


def square(x: np.ndarray) -> Fraction:
    """Return |x|^2 at any magnitude."""
    plain = float(compensated_dot(x, x))
    return Fraction(plain) if PLAIN[0] < plain < PLAIN[1] else inner(x, x, math.nan)


def square_between(x: np.ndarray, own: Fraction | None = None) -> tuple[Fraction, Fraction]:
    """Return bounds of the exact |x|^2; ``own`` is ``square(x)``, if that is known."""
    own, error = square(x) if own is None else own, Fraction(dot_error(x.size))
    return own * (1 - error), own * (1 + error)


def exponent(x: np.ndarray) -> int:
    """Return k with max |x_j| < 2^k, at most twice that far; 0 for a zero vector."""
    largest = max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))
    if not math.isfinite(largest):
        raise SpecError("a vector of the path is beyond float64's range; scale the features")
    return math.frexp(largest)[1]


def nearest(q: Fraction) -> float:
    """Return the float64 nearest to an exact number, infinite where that is beyond the range."""
    try:
        return float(q)
    except OverflowError:
        return math.inf if q > 0 else -math.inf


def up(q: Fraction) -> float:
    """Return the least float64 that is at least ``q``."""
    found = nearest(q)
    enough = found == math.inf or (found > -math.inf and Fraction(found) >= q)
    return found if enough else math.nextafter(found, math.inf)


def down(q: Fraction) -> float:
    """Return the largest float64 that is at most ``q``."""
    return -up(-q)


def root(q: Fraction) -> float:
    """Return the square root of an exact number >= 0 to within 2 units, infinite where that is beyond the range."""
    if q <= 0:
        return 0.0
    if PLAIN[0] < (plain := nearest(q)) < PLAIN[1]:
        return math.sqrt(plain)
    half = (q.numerator.bit_length() - q.denominator.bit_length()) // 2
    try:
        return math.ldexp(math.sqrt(q / Fraction(4) ** half), half)
    except OverflowError:
        return math.inf
