"""One ball: for ANY w and ANY feasible alpha the optimum w* of P_C lies in

    |w* - m| <= r,    m = (w + w_alpha)/2,    r^2 = P_C(w) - D_C(alpha) - |w - w_alpha|^2/4.

Proof. P_C is 1-strongly convex, so P_C(w) - P* >= |w - w*|^2/2; likewise D* - D_C(alpha) >= |w_alpha - w*|^2/2. Add the
two, use P* = D* and the parallelogram law. Neither needs to be optimal: the ball is safe for an inexact reference.
Written out, r^2 = |m|^2 + C xi(w) - sum alpha, which is what is computed here.

The vectors involved are few (w, w_alpha, a sum over rows) and long, so a centre is a combination of them: a ``Span``
knows their inner products, a row knows its products z_i . v_k with each, and no centre is ever formed.

Lengths are measured in a ``unit``, a power of two near sqrt(P): squares of lengths are then near 1, where features of
1e-150 or 1e150 would have them vanish or overflow. Should a number be beyond the range all the same, it becomes
infinite or nan, and a bound that is not a number decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import inline, kernel
from pipeline.maths.rounding import UNDERFLOW, UNIT, gamma, inner, nearest, root, square

Combination = tuple[float, ...]
TINY = 1e-290  # added to norms in units: more than their rounding where they are below the normal range


@dataclass(frozen=True)
class Span:
    """Vectors v_k, measured in ``unit``, known by their inner products; ``drift[k]`` bounds |v_k - v_k as defined|.

    Where inner products themselves are known less well than to rounding, ``doubt`` |v_k| |v_l| bounds what they may be
    off, and those of a vector with itself are upper bounds.

    Two or three vectors: plain Python numbers are quicker than small arrays.
    """

    gram: tuple[tuple[float, ...], ...] = ()
    drift: tuple[float, ...] = ()
    unit: float = 1.0
    doubt: float = 0.0

    @classmethod
    def of(cls, vectors: Sequence[np.ndarray], drift: Sequence[float] | None = None, unit: float = 1.0) -> Span:
        """Take the inner products of some vectors; their drifts are lengths, not in units."""
        span = cls(unit=unit)
        for k, vector in enumerate(vectors):
            span = span.with_vector(vector, vectors[:k], drift[k] if drift is not None else 0.0)
        return span

    def with_vector(
        self, v: np.ndarray, others: Sequence[np.ndarray], drift: float, own: Fraction | None = None
    ) -> Span:
        """Return the span with one more vector; ``others`` are those it has, ``own`` is |v|^2 if that is known."""
        own, energy = square(v) if own is None else own, Fraction(self.unit) ** 2
        size = root(own) / self.unit
        sizes = [size * norm * self.unit * self.unit for norm in self.norms]
        last = [nearest(inner(v, x, both) / energy) for x, both in zip(others, sizes, strict=True)]
        last.append(nearest(own / energy))
        gram = (*((*row, p) for row, p in zip(self.gram, last, strict=False)), tuple(last))
        return Span(gram, (*self.drift, drift / self.unit), self.unit, self.doubt)

    @cached_property
    def norms(self) -> tuple[float, ...]:
        """|v_k|."""
        return tuple(math.sqrt(max(0.0, row[k])) for k, row in enumerate(self.gram))

    def square(self, combination: Combination) -> float:
        """Return |sum_k a_k v_k|^2."""
        total = 0.0
        for a, row in zip(combination, self.gram, strict=True):
            for b, product in zip(combination, row, strict=True):
                total += a * b * product
        return not_below_zero(total)

    def size(self, combination: Combination) -> float:
        """Return sum_k |a_k| |v_k|, an upper bound of the norm that does not cancel."""
        total = 0.0
        for a, norm in zip(combination, self.norms, strict=True):
            total += abs(a) * norm
        return total

    def blur(self, combination: Combination) -> float:
        """Return sum_k |a_k| drift_k: how far the combination may be from the one that was meant."""
        total = 0.0
        for a, drift in zip(combination, self.drift, strict=True):
            total += abs(a) * drift
        return total


def not_below_zero(x: float) -> float:
    """Return max(0, x); nan stays nan, which ``max`` would make 0."""
    return 0.0 if x < 0.0 else x


@dataclass(frozen=True)
class Ball:
    """|w* - sum_k centre_k v_k| <= radius, in units. ``radius_squared`` is the formula's value, before any allowance.

    ``slack`` is what rounding may have taken from r^2 and ``blur`` how far the centre may be off; ``size`` bounds
    sum_k |centre_k| |v_k| and with it the rounding of the rows' products.
    """

    centre: Combination
    radius_squared: float
    slack: float
    blur: float
    size: float

    @property
    def radius(self) -> float:
        """The radius that is safe in floating point."""
        return (math.sqrt(not_below_zero(self.radius_squared) + self.slack) + self.blur) * (1 + 8 * UNIT)


def pair_ball(span: Span, w: Combination, w_alpha: Combination, loss: float, alpha_sum: float) -> Ball:
    """Return the ball of (w, alpha): ``loss`` >= C xi(w) and ``alpha_sum`` = sum alpha, in units (squared).

    alpha may be above its box by rounding, a few units of itself: what is meant is alpha (1 - 8 u), and the allowances
    cover the difference.
    """
    centre = tuple((a + b) / 2 for a, b in zip(w, w_alpha, strict=True))
    size = span.size(centre)
    blur = span.blur(centre) + 8 * UNIT * size
    slack = 48 * UNIT * (size * size + loss + alpha_sum) + span.doubt * size * size + blur * (2 * size + blur)
    return Ball(centre, span.square(centre) + loss - alpha_sum, slack, blur, size)


@inline
def row_bounds(at, norm, length, radius, size):  # type: ignore[no-untyped-def]
    """Return m . z_i -/+ r |z_i| of one row, widened by what rounding can have done; its norm is in units."""
    allowance = (length + 4) * (1.1 * UNIT)
    width = norm * (radius * (1.0 + allowance) + size * allowance) + 2 * UNIT * abs(at)
    return at - width, at + width


@inline
def norm_in(unit, norm):  # type: ignore[no-untyped-def]
    """Return a norm in units, not below what it is."""
    return norm * unit + TINY if norm > 0.0 else 0.0


@kernel
def _ball_bounds(products, norms, lengths, unit, radius, size, lower, upper):  # type: ignore[no-untyped-def]
    for i in range(products.size):
        lower[i], upper[i] = row_bounds(products[i], norm_in(unit, norms[i]), lengths[i], radius, size)


def centre_products(ball: Ball, products: Sequence[np.ndarray]) -> np.ndarray:
    """Return m . z_i from the rows' products with the span's vectors."""
    terms = [a * p for a, p in zip(ball.centre, products, strict=True) if a != 0.0]
    return sum(terms[1:], start=terms[0]) if terms else np.zeros_like(products[0])


def ball_bounds(
    ball: Ball, products: Sequence[np.ndarray], norms: np.ndarray, lengths: np.ndarray, unit: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds of z_i . w*: m . z_i -/+ r |z_i|, widened by what rounding can have done.

    ``lengths`` are the rows' numbers of nonzeros: a product of that many terms is off by at most about
    lengths u |z_i| sum_k |centre_k| |v_k|.
    """
    at = centre_products(ball, products)
    lower, upper = np.empty(at.size), np.empty(at.size)
    _ball_bounds(at, norms, lengths, unit, ball.radius, ball.size, lower, upper)
    return lower, upper


def drift_of_sum(reach: float, additions: int) -> float:
    """Bound |computed - exact| of sum_i alpha_i z_i, a sum of ``additions`` rows with sum alpha_i |z_i| = ``reach``.

    Every entry is a sum of at most ``additions`` terms; the errors' norm is at most gamma times sum alpha_i |z_i|.
    """
    return float(gamma(float(additions)) * reach) + additions * UNDERFLOW
