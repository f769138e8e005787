"""Points of the linear space, and the pass over all rows that makes them.

The pass multiplies every row by w, by w_alpha where that is another vector, and for bt2 and it by

    v = C sum c_i s_i z_i,   s_i = [alpha_i = u_i]   (any s in [0, 1] is feasible and safe),

which is w_alpha - the free rows' part and so costs a sum over the free rows only. From the products follow the
certificate of this C and the bounds of every later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.maths.ball import Combination, drift_of_sum
from pipeline.maths.certificate import BLURRED, NO_ROWS, Sums, at_bound, sums_of
from pipeline.maths.certified_pair import certified_pair
from pipeline.maths.estimate import KnownVectors
from pipeline.maths.rounding import LEAST_NORMAL, SAFE, UNIT, nearest, product_error, root, square
from pipeline.maths.rules import rule_named
from pipeline.maths.slack import Near
from pipeline.passes.weighted import sampled_weights
from pipeline.path.asleep import MOST_READ, MOST_SINCE, Doubt, Look
from pipeline.path.point import CertifiedPoint, Seen
from pipeline.path.soon import Soon
from pipeline.working.rows import WorkingRows
from pipeline.working.solver import LinearPair
from pipeline.working.state import ByRow, RowState

MOST_DRIFT = 0.02  # of tol: what the drift of w_alpha may add to a gap that rests on the dual value's definition


@dataclass(frozen=True)
class LinearPoint(CertifiedPoint):
    """A point whose w is a vector; ``look`` is what it knows of the rows, ``doubt`` how well if it has not read all."""

    pair: LinearPair
    look: Look
    doubt: Doubt | None = None

    @property
    def seen(self) -> Seen:
        """What the point knows of every row."""
        return super().seen if self.doubt is None else SeenInPart(self.products, self.state, self.doubt)

    @property
    def drift(self) -> float:
        """A bound on what rounding has done to w_alpha."""
        return self.pair.drift

    @property
    def read(self) -> float:
        """The share of the data that was read to certify the pair."""
        return self.look.share

    @property
    def before(self) -> ByRow | None:
        """The margins of the point before, where all rows were multiplied by its w as well."""
        known = self.look.base.products
        return known[-1] if self.doubt is None and len(known) > len(self.products) else None

    @property
    def lift(self) -> float:
        """By what share w must be longer for all rows on its margin, to within rounding, to be outside it."""
        size = root(square(self.pair.w)) * SAFE
        return 2 * BLURRED * max(self.state.each(_lift, self.state, self.margins, size), default=0.0)


@dataclass(frozen=True)
class SeenInPart(Seen):
    """What a point knows of the rows that has not read all of them."""

    doubt: Doubt

    def terms(self, part: slice, centres: Sequence[Combination]) -> Sequence[np.ndarray]:
        """Return, for some rows, of how many terms a dot product is that is as inexact as theirs with each centre."""
        return self.doubt.terms(part, centres)


def _lift(part: slice, rows: RowState, f: ByRow, size: float) -> float:
    error = product_error(rows.lengths[part], rows.norms[part], size) + 4 * UNIT
    blurred = (np.abs(1.0 - f[part]) <= BLURRED * error) & (rows.costs[part] > 0.0)
    return float(error.max(initial=0.0, where=blurred))


class Certifier:
    """Makes points, and counts the passes that took, and the nonzeros of rows that were read besides.

    With ``tol`` rows that need not be read for that are not (``asleep``), where the point before is given.
    """

    def __init__(self, engine: Engine, data: Dataset, working: WorkingRows, rule: str, tol: float | None) -> None:
        self.engine, self.data, self.working, self.state = engine, data, working, working.state
        self.with_signs, self.tol = rule_named(rule).needs_signs, tol
        self.least_cost = min(self.state.each(_least_cost, self.state.costs))
        self.passes = self.read = 0
        self._scaled: tuple[np.ndarray, ByRow] | None = None
        self.soon = Soon(engine, data, self.state)

    def _scale(self) -> tuple[np.ndarray, ByRow]:
        """Return D, and |z_i/D| of all rows: the first time a look at some rows, and a pass."""
        if self._scaled is None:
            weights, read = sampled_weights(self.data)
            found = self.state.empty()
            self.state.weigh(self.engine, self.data, weights, found)
            self.passes, self.read = self.passes + 1, self.read + read
            self._scaled = weights, found
        return self._scaled

    def point(
        self, c: float, pair: LinearPair, ref: LinearPoint | None = None, before: np.ndarray | None = None
    ) -> LinearPoint:
        """Certify a pair at C: one pass over all rows, or over those that ``ref``, the point before, leaves open.

        All rows are multiplied by ``before``, the w of the point before, too: most of what w changes by next is along
        what it changed by last.
        """
        w, apart, drift = pair.w, None if pair.w_alpha is pair.w else pair.w_alpha, pair.drift
        vectors = [w] if apart is None else [w, apart]
        if c * self.least_cost < LEAST_NORMAL:
            raise SpecError(f"C = {c:.6g} times a row's cost is below float64's range; scale features or weights")
        own = square(w)
        signs = self._signs(c, pair, own if apart is None else square(apart)) if self.with_signs else None
        if signs is not None:
            vectors.append(signs[0])
        w_norm = root(own) * SAFE
        found = None if ref is None or self.tol is None else self._some(c, pair, vectors, w_norm, ref)
        if found is None:
            if ref is not None:
                self.soon.before_all(ref.doubt, ref.margins)
            found = self._all(c, pair.alpha, vectors, w_norm, ref.pair.w if ref is not None else before)
        products, sums, look, doubt = found
        reference = certified_pair(c, sums, w, apart, drift, doubt is not None, own)
        if signs is not None:
            others = vectors[:-1]
            reference = reference.with_signs(signs[0], others, signs[2], signs[1])
        return LinearPoint(c, pair, reference, products, self.state, look, doubt)

    def _all(
        self, c: float, alpha: ByRow, vectors: list[np.ndarray], w_norm: float, before: np.ndarray | None
    ) -> _Looked:
        """Multiply all rows, and add up what they contribute, some shards at a time."""
        rows = self.state
        multiplied = vectors if before is None or self.tol is None else [*vectors, before]
        out = tuple(rows.empty() for _ in multiplied)
        about = c, rows, out[0], alpha, w_norm
        found = rows.multiply(self.engine, self.data, multiplied, out, w_norm, _sums, *about)
        self.passes += 1
        look = NOTHING
        if self.tol is not None:
            known = KnownVectors()
            for v, product in zip(multiplied, out, strict=True):
                known = known.extended(known.measured(v, self._scale()[0]), product, len(known.vectors))
            look = Look(known, known)
        return out[: len(vectors)], self._added(found), look, None

    def _some(
        self, c: float, pair: LinearPair, vectors: list[np.ndarray], w_norm: float, ref: LinearPoint
    ) -> _Looked | None:
        """Multiply the rows that are not known well enough; None if they are too many."""
        rows, look, alpha = self.state, ref.look, pair.alpha
        allowed = MOST_DRIFT * (self.tol or 0.0) * min(1.0, c / ref.c) * ref.certificate.primal
        if look.since >= MOST_SINCE or w_norm == 0.0 or not w_norm * pair.drift <= allowed:
            return None
        weights, weighted = self._scale()
        measured = [look.own.measured(v, weights) for v in vectors]
        doubt = Doubt.of(rows, measured, look, weights, weighted)
        if doubt is None:
            return None
        known, out = look.own.products, tuple(rows.empty() for _ in vectors)
        nonzeros = sum(rows.each(_wake, c, doubt, alpha, out[0], known))
        share = nonzeros / max(1, self.data.nnz)
        if share > MOST_READ:
            return None
        self.soon.before_some(doubt, out[0], look.since + share)
        rows.later(_estimate, doubt, out, known)
        about = c, rows, out[0], alpha, w_norm, doubt
        found = rows.multiply(self.engine, self.data, vectors, out, w_norm, _sums, *about, chosen=doubt.awake)
        self.read += nonzeros
        own = look.base
        for one, product in zip(measured, out, strict=True):
            own = own.extended(one, product, len(look.base.vectors))
        return out, self._added(found), Look(look.base, own, doubt.awake, look.since + share, share), doubt

    def _added(self, parts: list[Sums]) -> Sums:
        """Add up what parts of the rows contribute."""
        return replace(sum(parts, start=NO_ROWS), rows=self.state.trained)

    def _signs(self, c: float, pair: LinearPair, dual_square: Fraction) -> tuple[np.ndarray, float, float]:
        """Return v, sum c_i s_i and a bound on the rounding of v; u_i itself is a rounded product.

        ``dual_square`` is |w_alpha|^2.
        """
        rows, free = self.state, self.state.empty(np.bool_)
        cost, reach, count = Fraction(0), 0.0, 0
        for at_top, reached, inside in rows.each(_at_bound, c, rows, pair.alpha, free):
            cost, reach, count = cost + at_top, reach + reached, count + inside
        v = pair.w_alpha.copy()
        for held, places, alpha in self.working.visit(free, pair.alpha):
            coefficients = np.zeros(held.size)
            coefficients[places] = -alpha
            self.working.add_to(v, coefficients)
        size = root(dual_square)
        return v, nearest(cost), pair.drift + drift_of_sum(reach + size, count + 4)


def _least_cost(part: slice, costs: ByRow) -> float:
    return float(costs[part].min(initial=np.inf, where=costs[part] > 0.0))


def _sums(
    part: slice, near: Near, c: float, rows: RowState, f: ByRow, alpha: ByRow, w_norm: float, doubt: Doubt | None = None
) -> Sums:
    """Add up what some rows contribute: those that were not read by the worst margin that they may have."""
    about = alpha[part], rows.costs[part], rows.norms[part]
    if doubt is None:
        return sums_of(c, f[part], *about, rows.lengths[part], w_norm, near)
    w = 1.0, *([0.0] * (len(doubt.far) - 1))
    return sums_of(c, f[part], *about, doubt.terms(part, [w])[0], w_norm, near, ~doubt.awake[part])


def _wake(part: slice, c: float, doubt: Doubt, alpha: ByRow, f: ByRow, known: Sequence[ByRow]) -> int:
    """Write estimates of margins, and which rows have to be read; return how many nonzeros these have."""
    f[part] = found = doubt.products(0, part, known)
    return doubt.wake(found, alpha[part], (c, doubt.state.costs[part]), part)


def _estimate(part: slice, doubt: Doubt, out: Sequence[ByRow], known: Sequence[ByRow]) -> None:
    """Write estimates of the products with all vectors but the first."""
    for k in range(1, len(out)):
        out[k][part] = doubt.products(k, part, known)


def _at_bound(part: slice, c: float, rows: RowState, alpha: ByRow, free: ByRow) -> tuple[Fraction, float, int]:
    """Write which rows are free; return the costs of those at their bound, sum alpha_i |z_i|, and how many are free."""
    costs, lengths, inside = at_bound(alpha[part], c, rows.costs[part], rows.norms[part], free[part])
    return Fraction(costs[0]) + Fraction(costs[1]), sum(lengths), inside


_Looked = tuple[tuple[ByRow, ...], Sums, Look, Doubt | None]
NOTHING = Look(KnownVectors(), KnownVectors())  # is known to a run whose certificates read every row
