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

import numpy as np

from pipeline.dataclass import dataclass
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
    far, other = norm * shape[0], weighted_norm * shape[1]
    if other < far:  # noqa: PLR1730 - a nan changes nothing
        far = other
    return (far + (length + shape[4] + 2) * (UNIT * (1 + 2**-20)) * norm * shape[2]) * SAFE


MOST_KNOWN = 8  # vectors at most: w, w_alpha, the signs' and the w before of a full pass, the first three of a point

SOME = 512  # numbers at a time: an array or two of them stay in the innermost cache


def padded(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return arrays as kernels take several of them: so many that these need to be compiled for one number only."""
    assert len(arrays) <= MOST_KNOWN
    return *arrays, *([_NONE] * (MOST_KNOWN - len(arrays)))


_NONE = np.empty(0)


@kernel
def expected(read, far, near, products, out):  # type: ignore[no-untyped-def]
    """Write sum_j a_j (z_i . b_j) of rows, with the coefficients ``near`` for those that ``read`` marks, else ``far``.

    ``products`` are ``padded``.
    """
    out[:] = 0.0
    for j in range(len(products)):
        known = products[j]
        if known.size and j < near.size:
            a, b = far[j], near[j]
            for i in range(out.size):
                out[i] += (b if read[i] else a) * known[i]


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
def add_doubt(about, awake, read, shapes, shares, terms):  # type: ignore[no-untyped-def]
    """Add to the ``terms`` of rows' products with combinations of vectors how many more they are worth.

    That is, of how many terms more than it has a row's product with a vector is, if it is as inexact as its estimate
    (``shapes``: of each vector for all rows, and for those that ``read`` marks), times the share that the vector has in
    a combination. Products of rows that are ``awake`` were made, and are no less exact than their terms say.
    """
    (norms, weighted, lengths), (far, near) = about, shapes
    for start in range(0, awake.size, SOME):
        some = slice(start, min(start + SOME, awake.size))
        sizes, scaled, counts, done, known = norms[some], weighted[some], lengths[some], awake[some], read[some]
        more = np.empty(sizes.size)
        for k in range(far.shape[0]):
            one = far[k, 0], far[k, 1], far[k, 2], far[k, 3], far[k, 4]
            other = near[k, 0], near[k, 1], near[k, 2], near[k, 3], near[k, 4]
            for i in range(more.size):
                shape = other if known[i] else one
                scale = UNIT * sizes[i] * shape[3]
                width = _width(sizes[i], scaled[i], counts[i], shape)
                found = width / scale if scale > 0.0 else np.inf
                more[i] = 0.0 if done[i] or sizes[i] == 0.0 else found
            for j in range(shares.shape[0]):
                if shares[j, k] > 0.0:
                    share, out = shares[j, k], terms[j, some]
                    for i in range(out.size):
                        out[i] += share * more[i] * SAFE


@dataclass(frozen=True)
class Measured:
    """A vector beside known ones: ``dots`` = b_j . v, ``square`` = |v|^2 to rounding, bounds of |v| and |D v|."""

    v: np.ndarray
    dots: tuple[float, ...]
    square: float
    norms: tuple[float, float]


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

    def measured(self, v: np.ndarray, weights: np.ndarray | None) -> Measured:
        """Measure a vector beside these."""
        return Measured(v, tuple(float(b @ v) for b in self.vectors), float(v @ v), norms_of(v, weights))

    def extended(self, one: Measured, products: np.ndarray, first: int) -> KnownVectors:
        """Return what is known with one more vector, and the rows' products with it.

        It was measured beside the ``first`` so many of these vectors, and maybe others.
        """
        dots = *one.dots[:first], *(float(b @ one.v) for b in self.vectors[first:])
        gram = (*((*each, dot) for each, dot in zip(self.gram, dots, strict=True)), (*dots, one.square))
        vectors, all_products = (*self.vectors, one.v), (*self.products, products)
        return KnownVectors(vectors, all_products, gram, (*self.norms, one.norms[0]), (*self.weighted, one.norms[1]))

    def estimate(self, one: Measured, weights: np.ndarray | None, first: int) -> Estimate:
        """Express a vector by the ``first`` so many known vectors; ``weights`` is D."""
        coefficients = _least_squares([row[:first] for row in self.gram[:first]], one.dots[:first])
        plain = _rest_squares(one.v, np.array(coefficients), padded(self.vectors[:first]), _given(weights))
        (norm, weighted_norm), (apart, weighted) = one.norms, _bounds(plain, one.v.size, weights)
        size = sum(abs(a) * each for a, each in zip(coefficients, self.norms, strict=False)) * SAFE
        weighted_size = sum(abs(a) * each for a, each in zip(coefficients, self.weighted, strict=False)) * SAFE
        blur = float(gamma(float(first + 2))) * SAFE
        apart, weighted = apart + blur * (norm + size), weighted + blur * (weighted_norm + weighted_size)
        return Estimate(coefficients, apart * SAFE, weighted * SAFE, size, norm)


@kernel
def _rest_squares(v, coefficients, vectors, weights):  # type: ignore[no-untyped-def]
    """Return the sums of e_k^2 and of (D_k e_k)^2, e = v - sum_j a_j b_j, and whether e = 0; without weights D = 1.

    Some entries at a time, which stay in the cache.
    """
    plain = weighted = 0.0
    zero = True
    for start in range(0, v.size, SOME):
        some = slice(start, min(start + SOME, v.size))
        rest = v[some].copy()
        for j in range(len(vectors)):
            if j < coefficients.size:
                a, b = coefficients[j], vectors[j][some]
                for k in range(rest.size):
                    rest[k] -= a * b[k]
        scale = weights[some]
        for k in range(scale.size):
            square = rest[k] * rest[k]
            plain += square
            weighted += square * scale[k] * scale[k]
        for k in range(scale.size, rest.size):  # all of them where there are no weights
            plain += rest[k] * rest[k]
        if zero:
            zero = plain == 0.0 and not rest.any()
    return plain, weighted, zero


def norms_of(x: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Return upper bounds of |x| and |D x|, infinite where squares are beyond the range, or where there is no D."""
    return _bounds(_rest_squares(x, np.empty(0), padded(()), _given(weights)), x.size, weights)


def _given(weights: np.ndarray | None) -> np.ndarray:
    return _NONE if weights is None else weights


def _bounds(sums: tuple[float, float, bool], size: int, weights: np.ndarray | None) -> tuple[float, float]:
    """Return bounds of two norms from sums of ``size`` squares, and whether all of these are 0."""
    *squares, zero = sums
    if zero:
        return 0.0, 0.0 if weights is not None else math.inf
    wider = 1 + float(gamma(float(size + 4)))
    norm, other = (math.sqrt(square) * wider if LEAST_SQUARE < square < math.inf else math.inf for square in squares)
    return norm, other if weights is not None else math.inf


def _least_squares(gram: Sequence[Sequence[float]], right: Sequence[float]) -> tuple[float, ...]:
    """Return coefficients, as good as they can be told; zeros where numbers are beyond the range.

    Vectors of length 1 with a little more of themselves each are never dependent, so that elimination without a choice
    of pivots does. Of so few numbers, plain ones are quicker than arrays.
    """
    count, zeros = len(right), (0.0,) * len(right)
    if not all(map(math.isfinite, (*right, *(x for row in gram for x in row)))):
        return zeros
    scale = [math.sqrt(gram[k][k]) or 1.0 for k in range(count)]
    rows = [
        [gram[j][k] / scale[j] / scale[k] + (RIDGE if j == k else 0.0) for k in range(count)] + [right[j] / scale[j]]
        for j in range(count)
    ]
    for k in range(count):
        if not rows[k][k] > 0.0:
            return zeros
        for j in range(k + 1, count):
            factor = rows[j][k] / rows[k][k]
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[k], strict=True)]
    found = [0.0] * count
    for k in range(count - 1, -1, -1):
        rest = rows[k][-1] - sum(rows[k][j] * found[j] for j in range(k + 1, count))
        found[k] = rest / rows[k][k]
    coefficients = tuple(a / each for a, each in zip(found, scale, strict=True))
    return coefficients if all(map(math.isfinite, coefficients)) else zeros


def feature_weights(squares: np.ndarray, rows: int) -> np.ndarray:
    """Return D from the sums of squares of the features in a sample of ``rows`` rows.

    Features that the sample has not are taken to be as rare as half of the rarest that it has.
    """
    seen = (squares > 0.0) & np.isfinite(squares)
    if not seen.any():
        return np.ones_like(squares)
    unseen = 0.5 * float(squares[seen].min())
    return np.sqrt(np.sqrt(np.where(seen, squares, unseen) / rows))
