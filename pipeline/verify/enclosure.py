"""P, D and the relative gap of a model between two exact fractions, from sums in twice the precision of float64."""

from __future__ import annotations

import math
from fractions import Fraction

from pipeline.dataclass import dataclass
from pipeline.verify.twofold import LEAST, UNIT, UP, exact, lost

Pair = tuple[float, float]


@dataclass(frozen=True)
class TwofoldSums:
    """Sums over all rows, ``terms`` in number: sum c_i max(0, 1 - f_i) and sum alpha_i, in two parts each.

    ``blur`` bounds what the error of the margins does to the first, ``reach`` is sum alpha_i |z_i|.
    """

    hinge: Pair
    alpha: Pair
    blur: float
    reach: float
    terms: int

    @property
    def is_finite(self) -> bool:
        """Whether all sums are numbers."""
        return all(math.isfinite(x) for x in (*self.hinge, *self.alpha, self.blur, self.reach))

    @property
    def more(self) -> Fraction:
        """What makes upper bounds of plain sums, given their own rounding."""
        return Fraction(UP) * (1 + 2 * self.terms * Fraction(UNIT))


@dataclass(frozen=True)
class Around:
    """A number that is off by no more than ``error``."""

    value: Fraction
    error: Fraction


@dataclass(frozen=True)
class Interval:
    """A number that lies between two others."""

    lower: Fraction
    upper: Fraction


@dataclass(frozen=True)
class Enclosure:
    """Where P and D are; and, within far less than float64 can tell, what they are made of."""

    c: float
    primal: Interval
    dual: Interval
    hinge: Fraction
    alpha: Fraction
    square: Fraction
    alpha_square: Fraction

    @property
    def gap(self) -> Fraction:
        """An upper bound of P - D."""
        return self.primal.upper - self.dual.lower

    @property
    def relative_gap(self) -> Interval:
        """Where (P - D)/P is: at least 0, and 0 where P = 0."""
        p, d = self.primal, self.dual
        if p.lower <= 0:
            return Interval(Fraction(0), Fraction(0 if p.upper <= 0 else 1))
        lower = 1 - d.upper / (p.lower if d.upper > 0 else p.upper)
        return Interval(max(Fraction(0), lower), max(Fraction(0), 1 - d.lower / (p.upper if d.lower > 0 else p.lower)))


def enclosed(
    c: float, sums: TwofoldSums, square: Fraction | None, alpha_square: Fraction | None, features: int
) -> Enclosure | None:
    """Enclose P and D at C, given |w|^2 and |w_alpha|^2 of vectors; None where that is beyond float64."""
    if square is None or alpha_square is None or not sums.is_finite:
        return None
    drift = lost(sums.terms, sums.more * Fraction(sums.reach)) + (features + 1) * sums.terms * Fraction(LEAST)
    around = lost(features, alpha_square) + (2 * _root(alpha_square) + drift) * drift
    return enclosed_by(c, sums, Around(square, lost(features, square)), Around(alpha_square, around))


def enclosed_by(c: float, sums: TwofoldSums, square: Around, alpha_square: Around) -> Enclosure | None:
    """Enclose P and D at C, given where |w|^2 and |w_alpha|^2 are; None where that is beyond float64."""
    if not (sums.is_finite and math.isfinite(c)):
        return None
    hinge, alpha = exact(*sums.hinge), exact(*sums.alpha)
    around = sums.more * Fraction(sums.blur) + lost(sums.terms, sums.more * abs(hinge))
    half = max(Fraction(0), square.value - square.error) / 2, (square.value + square.error) / 2
    primal = Interval(
        half[0] + Fraction(c) * max(Fraction(0), hinge - around), half[1] + Fraction(c) * (hinge + around)
    )
    if math.isinf(nearest(primal.upper)):
        return None
    around = alpha_square.error / 2 + lost(sums.terms, abs(alpha))
    dual = alpha - alpha_square.value / 2
    bounds = Interval(dual - around, dual + around)
    return Enclosure(c, primal, bounds, hinge, alpha, square.value, alpha_square.value)


def _root(x: Fraction) -> Fraction:
    """Return an upper bound of the square root, within 2^-600."""
    return Fraction(math.isqrt(math.ceil(x * 4**600)) + 1, 2**600)


def rounded_up(x: Fraction) -> float:
    """Return the least float64 that is not below x."""
    near = nearest(x)
    return near if near == math.inf or (near > -math.inf and near >= x) else math.nextafter(near, math.inf)


def rounded_down(x: Fraction) -> float:
    """Return the largest float64 that is not above x."""
    return -rounded_up(-x)


def nearest(x: Fraction) -> float:
    """Return the nearest float64, or infinity."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf
