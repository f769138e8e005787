"""One ball: for ANY w and ANY feasible alpha the optimum w* of P_C lies in

    |w* - m| <= r,    m = (w + w_alpha)/2,    r^2 = P_C(w) - D_C(alpha) - |w - w_alpha|^2/4.

Proof. P_C is 1-strongly convex, so P_C(w) - P* >= |w - w*|^2/2; likewise D* - D_C(alpha) >= |w_alpha - w*|^2/2. Add the
two, use P* = D* and the parallelogram law. Neither needs to be optimal: the ball is safe for an inexact reference.
Written out, r^2 = |m|^2 + C xi(w) - sum alpha, which is what is computed here.

The vectors involved are few (w, w_alpha, a sum over rows) and long, so a centre is a combination of them: a ``Span``
knows their inner products, a row knows its products z_i . v_k with each, and no centre is ever formed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.jit import kernel
from pipeline.maths.rounding import UNIT, compensated_dot, gamma

Combination = tuple[float, ...]


@dataclass(frozen=True)
class Span:
    """Vectors v_k known by their inner products; ``drift[k]`` bounds |v_k as computed - v_k as defined|.

    Two or three vectors: plain Python numbers are quicker than small arrays.
    """

    gram: tuple[tuple[float, ...], ...]
    drift: tuple[float, ...]

    @classmethod
    def of(cls, vectors: Sequence[np.ndarray], drift: Sequence[float] | None = None) -> Span:
        """Take the inner products of some vectors."""
        gram = tuple(tuple(float(compensated_dot(a, b)) for b in vectors) for a in vectors)
        return cls(gram, tuple(drift) if drift is not None else (0.0,) * len(vectors))

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
        return max(0.0, total)

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


@dataclass(frozen=True)
class Ball:
    """|w* - sum_k centre_k v_k| <= radius. ``radius_squared`` is the formula's value, before any allowance.

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
        return (math.sqrt(max(0.0, self.radius_squared) + self.slack) + self.blur) * (1 + 8 * UNIT)


def pair_ball(
    span: Span, w: Combination, w_alpha: Combination, loss: float, alpha_sum: float, loss_error: float
) -> Ball:
    """Return the ball of (w, alpha): ``loss`` = C xi(w), known to within ``loss_error``; ``alpha_sum`` = sum alpha."""
    centre = tuple((a + b) / 2 for a, b in zip(w, w_alpha, strict=True))
    square, size, blur = span.square(centre), span.size(centre), span.blur(centre)
    rounding = 32 * UNIT * (size * size + loss + alpha_sum)
    slack = loss_error + rounding + blur * (2 * size + blur)
    return Ball(centre, square + loss - alpha_sum, slack, blur, size)


@kernel
def _ball_bounds(products, norms, lengths, radius, size, lower, upper):  # type: ignore[no-untyped-def]
    for i in range(products.size):
        allowance = (lengths[i] + 4) * (1.1 * UNIT)
        width = norms[i] * (radius * (1.0 + allowance) + size * allowance) + 2 * UNIT * abs(products[i])
        lower[i] = products[i] - width
        upper[i] = products[i] + width


def centre_products(ball: Ball, products: Sequence[np.ndarray]) -> np.ndarray:
    """Return m . z_i from the rows' products with the span's vectors."""
    terms = [a * p for a, p in zip(ball.centre, products, strict=True) if a != 0.0]
    return sum(terms[1:], start=terms[0]) if terms else np.zeros_like(products[0])


def ball_bounds(
    ball: Ball, products: Sequence[np.ndarray], norms: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds of z_i . w*: m . z_i -/+ r |z_i|, widened by what rounding can have done.

    ``lengths`` are the rows' numbers of nonzeros: a product of that many terms is off by at most about
    lengths u |z_i| sum_k |centre_k| |v_k|.
    """
    at = centre_products(ball, products)
    lower, upper = np.empty(at.size), np.empty(at.size)
    _ball_bounds(at, norms, lengths, ball.radius, ball.size, lower, upper)
    return lower, upper


def drift_of_sum(reach: float, additions: int) -> float:
    """Bound |computed - exact| of sum_i alpha_i z_i, a sum of ``additions`` rows with sum alpha_i |z_i| = ``reach``.

    Every entry is a sum of at most ``additions`` terms; the errors' norm is at most gamma times sum alpha_i |z_i|.
    """
    return float(gamma(float(additions)) * reach)
