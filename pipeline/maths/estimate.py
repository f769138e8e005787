"""Products with a vector from those with vectors that are known, without reading a row.

Write v = sum_j a_j b_j + e, the b_j being vectors whose products with all rows are known. Then by Cauchy-Schwarz, for
any weights D_k > 0 of the features (D = 1 among them),

    z_i . v  in  sum_j a_j (z_i . b_j)  -/+  |z_i/D| |D e|.

The a_j are those of least squares; any would do, and so would any D. What a row's entry z_ik is multiplied with is e_k,
of which more is to be expected where the feature is rare: with e_k alike for all k the mean of |z_i/D|^2 |D e|^2 is
least for D_k^2 = the root of the feature's mean square, and that is the D beside 1. (Replayed on finished paths, reads
a certified C with D = 1 alone and with both: a9a 0.31 and 0.27, mushrooms 0.43 and 0.41, census 0.46 and 0.40, imdb
0.74 and 0.69, magic, whose features are of different size, 0.39 and 0.29.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.jit import kernel
from pipeline.maths.rounding import UNIT, compensated_dot, gamma

SAFE = 1 + 1e-12  # more than the rounding of norms and of a few operations
LEAST_SQUARE = 1e-250  # below it squares of entries may have vanished
LEAST_SHARE = 1e-10  # of the largest squared length among known vectors: directions that are shorter are not used


@dataclass(frozen=True)
class Estimate:
    """v = sum_j ``coefficients``_j b_j + e with |e| <= ``apart`` and |D e| <= ``weighted`` (inf without weights).

    ``size`` = sum_j |a_j| |b_j| is what rounding of the products is measured by; ``norm`` >= |v|.
    """

    coefficients: tuple[float, ...]
    apart: float
    weighted: float
    size: float
    norm: float

    def products(self, known: Sequence[np.ndarray]) -> np.ndarray:
        """Return sum_j a_j (z_i . b_j) of some rows."""
        total = self.coefficients[0] * known[0]
        for a, product in zip(self.coefficients[1:], known[1:], strict=True):
            total += a * product
        return total

    def width(self, norms: np.ndarray, weighted_norms: np.ndarray | None, lengths: np.ndarray) -> np.ndarray:
        """Bound how far ``products`` are off for rows of these norms, |z_i/D| and numbers of nonzeros."""
        far = norms * self.apart
        if weighted_norms is not None:
            far = np.fmin(far, weighted_norms * self.weighted)
        rounding = gamma(lengths + (len(self.coefficients) + 4)) * norms * self.size
        return (far + rounding) * SAFE

    def terms(self, width: np.ndarray, norms: np.ndarray) -> np.ndarray:
        """Return k such that k u |z_i| |v| is at least ``width``: of how many terms a product is that is off as far."""
        scale = UNIT * norms * self.norm
        with np.errstate(divide="ignore", invalid="ignore"):
            found = width / scale * SAFE
        return np.where(scale > 0.0, found, np.where(width > 0.0, np.inf, 0.0))


@dataclass(frozen=True)
class Known:
    """Vectors b_j by their inner products, with |b_j| and |D b_j|; ``products`` are those of the rows with each."""

    vectors: tuple[np.ndarray, ...] = ()
    products: tuple[np.ndarray, ...] = ()
    gram: tuple[tuple[float, ...], ...] = ()
    norms: tuple[float, ...] = ()
    weighted: tuple[float, ...] = ()

    def dots(self, v: np.ndarray) -> tuple[float, ...]:
        """Return b_j . v for all j."""
        return tuple(float(compensated_dot(b, v)) for b in self.vectors)

    def extended(self, v: np.ndarray, products: np.ndarray, weights: np.ndarray | None) -> Known:
        """Return what is known with one more vector, and the rows' products with it."""
        dots, (norm, weighted) = self.dots(v), norms_of(v, weights)
        row = *dots, float(compensated_dot(v, v))
        gram = (*((*each, dot) for each, dot in zip(self.gram, dots, strict=True)), row)
        vectors, all_products = (*self.vectors, v), (*self.products, products)
        return Known(vectors, all_products, gram, (*self.norms, norm), (*self.weighted, weighted))

    def estimate(self, v: np.ndarray, dots: tuple[float, ...], weights: np.ndarray | None, first: int) -> Estimate:
        """Express v, with these ``dots``, by the ``first`` so many known vectors; ``weights`` is D."""
        gram = np.array([row[:first] for row in self.gram[:first]])
        coefficients = _least_squares(gram, np.array(dots[:first]))
        rest = v.copy()
        for a, b in zip(coefficients, self.vectors, strict=False):
            _subtract(rest, a, b)
        (norm, weighted_norm), (apart, weighted) = norms_of(v, weights), norms_of(rest, weights)
        size = sum(abs(a) * each for a, each in zip(coefficients, self.norms, strict=False)) * SAFE
        weighted_size = sum(abs(a) * each for a, each in zip(coefficients, self.weighted, strict=False)) * SAFE
        blur = float(gamma(float(first + 2))) * SAFE
        apart, weighted = apart + blur * (norm + size), weighted + blur * (weighted_norm + weighted_size)
        return Estimate(coefficients, apart * SAFE, weighted * SAFE, size, norm)


@kernel
def _subtract(rest, a, b):  # type: ignore[no-untyped-def]
    for k in range(rest.size):
        rest[k] -= a * b[k]


@kernel
def _squares(x, weights):  # type: ignore[no-untyped-def]
    """Return the sums of x_k^2 and of (D_k x_k)^2; D = 1 where there are no weights."""
    plain = weighted = 0.0
    for k in range(x.size):
        square = x[k] * x[k]
        plain += square
        weighted += square * weights[k] * weights[k] if weights.size else square
    return plain, weighted


def norms_of(x: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Return upper bounds of |x| and |D x|, infinite where squares are beyond the range, or where there is no D."""
    plain, weighted = _squares(x, np.empty(0) if weights is None else weights)
    if plain == 0.0 and not x.any():
        return 0.0, 0.0 if weights is not None else math.inf
    wider = 1 + float(gamma(float(x.size + 4)))
    norm, other = (
        math.sqrt(square) * wider if LEAST_SQUARE < square < math.inf else math.inf for square in (plain, weighted)
    )
    return norm, other if weights is not None else math.inf


def _least_squares(gram: np.ndarray, right: np.ndarray) -> tuple[float, ...]:
    """Return coefficients, as good as they can be told; zeros where numbers are beyond the range."""
    scale = np.sqrt(np.diag(gram))
    if not (np.isfinite(gram).all() and np.isfinite(right).all() and (scale > 0.0).any()):
        return (0.0,) * right.size
    scale[scale == 0.0] = 1.0
    found = np.linalg.lstsq(gram / scale / scale[:, None], right / scale, rcond=LEAST_SHARE)[0] / scale
    return tuple(float(a) for a in found) if np.isfinite(found).all() else (0.0,) * right.size


def feature_weights(squares: np.ndarray, rows: int) -> np.ndarray:
    """Return D from the sums of squares of the features in a sample of ``rows`` rows.

    Features that the sample has not are taken to be as rare as half of the rarest that it has.
    """
    seen = (squares > 0.0) & np.isfinite(squares)
    if not seen.any():
        return np.ones_like(squares)
    unseen = 0.5 * float(squares[seen].min())
    return np.sqrt(np.sqrt(np.where(seen, squares, unseen) / rows))
