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
from dataclasses import dataclass

import numpy as np

from pipeline.jit import inline, kernel
from pipeline.maths.rounding import SAFE, UNIT, gamma

LEAST_SQUARE = 1e-250  # below it squares of entries may have vanished
RIDGE = 1e-12  # of the vectors' squared lengths: a few thousand roundings


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

    @property
    def shape(self) -> tuple[float, ...]:
        """What kernels need to know: |e|, |D e|, what rounding is measured by, |v|, and terms beside a row's own."""
        return self.apart, self.weighted, self.size, self.norm, len(self.coefficients) + 4.0


@inline
def _width(norm, weighted_norm, length, shape):  # type: ignore[no-untyped-def]
    """Bound how far a row's product is off: by e, and by rounding."""
    apart, weighted, size, _, terms = shape
    far, other = norm * apart, weighted_norm * weighted
    if other < far:  # noqa: PLR1730 - a nan changes nothing
        far = other
    return (far + (length + terms + 2) * (UNIT * (1 + 2**-20)) * norm * size) * SAFE


@kernel
def add_known(read, far, near, products, total):  # type: ignore[no-untyped-def]
    """Add ``near`` times a known vector's products to those of rows that ``read`` marks, to others ``far`` times."""
    for i in range(total.size):
        total[i] += (near if read[i] else far) * products[i]


@kernel
def find_awake(f, alpha, box, about, read, shapes, awake):  # type: ignore[no-untyped-def]
    """Write which rows, with estimates f, are not where they belong for certain; return how many nonzeros these have.

    Rows left out (u = 0) are among them. ``box`` is (C, costs), ``about`` are the rows' norms, |z_i/D| and numbers of
    nonzeros; ``shapes`` are that of an estimate for all rows, and of one for rows that ``read`` marks.
    """
    (c, costs), (norms, weighted, lengths), (far, near) = box, about, shapes
    nonzeros = 0
    for i in range(f.size):
        u = c * costs[i]
        width = _width(norms[i], weighted[i], lengths[i], near if read[i] else far)
        width += 8 * UNIT * (1.0 + abs(f[i]))
        above, below = f[i] - width >= 1.0, f[i] + width <= 1.0
        awake[i] = not (u > 0.0 and ((above and alpha[i] == 0.0) or (below and alpha[i] == u)))
        nonzeros += lengths[i] if awake[i] else 0
    return nonzeros


@kernel
def doubt_in_terms(about, awake, read, shapes, more):  # type: ignore[no-untyped-def]
    """Write of how many terms more than it has a row's product with a vector is, if it is as inexact as its estimate.

    Products of rows that are ``awake`` were made, and are no less exact than their terms say.
    """
    (norms, weighted, lengths), (far, near) = about, shapes
    for i in range(more.size):
        shape = near if read[i] else far
        scale = UNIT * norms[i] * shape[3]
        width = _width(norms[i], weighted[i], lengths[i], shape)
        found = width / scale if scale > 0.0 else np.inf
        more[i] = 0.0 if awake[i] or norms[i] == 0.0 else found


@kernel
def add_doubt(share, more, terms):  # type: ignore[no-untyped-def]
    """Add the share that a vector has in a combination, times its doubt."""
    for i in range(terms.size):
        terms[i] += share * more[i] * SAFE


@dataclass(frozen=True)
class KnownVectors:
    """Vectors b_j by their inner products, with |b_j| and |D b_j|; ``products`` are those of the rows with each.

    Inner products need not be exact: coefficients come from them, and any would do.
    """

    vectors: tuple[np.ndarray, ...] = ()
    products: tuple[np.ndarray, ...] = ()
    gram: tuple[tuple[float, ...], ...] = ()
    norms: tuple[float, ...] = ()
    weighted: tuple[float, ...] = ()

    def dots(self, v: np.ndarray) -> tuple[float, ...]:
        """Return b_j . v for all j."""
        return tuple(float(b @ v) for b in self.vectors)

    def extended(self, v: np.ndarray, products: np.ndarray, weights: np.ndarray | None) -> KnownVectors:
        """Return what is known with one more vector, and the rows' products with it."""
        dots, (norm, weighted) = self.dots(v), norms_of(v, weights)
        row = *dots, float(v @ v)
        gram = (*((*each, dot) for each, dot in zip(self.gram, dots, strict=True)), row)
        vectors, all_products = (*self.vectors, v), (*self.products, products)
        return KnownVectors(vectors, all_products, gram, (*self.norms, norm), (*self.weighted, weighted))

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
    """Return coefficients, as good as they can be told; zeros where numbers are beyond the range.

    Vectors of length 1 with a little more of themselves each are never dependent.
    """
    scale = np.sqrt(np.diag(gram))
    if not (np.isfinite(gram).all() and np.isfinite(right).all()):
        return (0.0,) * right.size
    scale[scale == 0.0] = 1.0
    found = np.linalg.solve(gram / scale / scale[:, None] + RIDGE * np.eye(right.size), right / scale) / scale
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
