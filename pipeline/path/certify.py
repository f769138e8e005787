"""Points of the linear space, and the pass over all rows that makes them.

The pass multiplies every row by w, by w_alpha where that is another vector, and for bt2 and it by

    v = C sum c_i s_i z_i,   s_i = [alpha_i = u_i]   (any s in [0, 1] is feasible and safe),

which is w_alpha - the free rows' part and so costs a sum over the free rows only. From the products follow the
certificate of this C and the bounds of every later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.maths.ball import Combination, drift_of_sum
from pipeline.maths.certificate import BLURRED, NO_ROWS, Sums, at_bound, sums_of
from pipeline.maths.certified_pair import certified_pair
from pipeline.maths.estimate import KnownVectors
from pipeline.maths.rounding import LEAST_NORMAL, SAFE, UNIT, nearest, product_error, root, square
from pipeline.maths.rules import rule_named
from pipeline.maths.slack import Near
from pipeline.passes.products import certifying_products, some_products
from pipeline.passes.weighted import sampled_weights, weighted_norms
from pipeline.path.asleep import MOST_READ, MOST_SINCE, Doubt, Look
from pipeline.path.point import CertifiedPoint
from pipeline.working.rows import WorkingRows
from pipeline.working.solver import LinearPair
from pipeline.working.state import CHUNK

MOST_DRIFT = 0.02  # of tol: what the drift of w_alpha may add to a gap that rests on the dual value's definition


@dataclass(frozen=True)
class LinearPoint(CertifiedPoint):
    """A point whose w is a vector; ``look`` is what it knows of the rows, ``doubt`` how well if it has not read all."""

    pair: LinearPair
    look: Look
    doubt: Doubt | None = None

    def terms(self, part: slice, centre: Combination) -> np.ndarray:
        """Return, for some rows, of how many terms a dot product is that is as inexact as theirs with a centre."""
        return self.state.lengths[part] if self.doubt is None else self.doubt.terms(part, centre)

    @property
    def drift(self) -> float:
        """A bound on what rounding has done to w_alpha."""
        return self.pair.drift

    @property
    def read(self) -> float:
        """The share of the data that was read to certify the pair."""
        return self.look.share

    @property
    def before(self) -> np.ndarray | None:
        """The margins of the point before, where all rows were multiplied by its w as well."""
        known = self.look.base.products
        return known[-1] if self.doubt is None and len(known) > len(self.products) else None

    @property
    def lift(self) -> float:
        """By what share w must be longer for all rows on its margin, to within rounding, to be outside it."""
        rows, f, found = self.state, self.margins, 0.0
        size = root(square(self.pair.w)) * SAFE
        for part in rows.chunks():
            error = product_error(rows.lengths[part], rows.norms[part], size) + 4 * UNIT
            blurred = (np.abs(1.0 - f[part]) <= BLURRED * error) & (rows.costs[part] > 0.0)
            found = max(found, float(error.max(initial=0.0, where=blurred)))
        return 2 * BLURRED * found


class Certifier:
    """Makes points, and counts the passes that took, and the nonzeros of rows that were read besides.

    With ``tol`` rows that need not be read for that are not (``asleep``), where the point before is given.
    """

    def __init__(self, engine: Engine, data: Dataset, working: WorkingRows, rule: str, tol: float | None) -> None:
        self.engine, self.data, self.working, self.state = engine, data, working, working.state
        self.with_signs, self.tol = rule_named(rule).needs_signs, tol
        state = self.state
        used = ((state.costs[p], state.costs[p] > 0.0) for p in state.chunks())
        self.least_cost = min(float(costs.min(initial=np.inf, where=some)) for costs, some in used)
        self.passes = self.read = 0
        self._scaled: tuple[np.ndarray, np.ndarray] | None = None

    def _scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Return D, and |z_i/D| of all rows: the first time a look at some rows, and a pass."""
        if self._scaled is None:
            weights, read = sampled_weights(self.data)
            found = self.state.empty()
            weighted_norms(self.engine, self.data, weights, found)
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
        signs = self._signs(c, pair) if self.with_signs else None
        if signs is not None:
            vectors.append(signs[0])
        w_norm = root(square(w)) * SAFE
        found = None if ref is None or self.tol is None else self._some(c, pair, vectors, w_norm, ref)
        if found is None:
            found = self._all(c, pair.alpha, vectors, w_norm, ref.pair.w if ref is not None else before)
        products, sums, look, doubt = found
        reference = certified_pair(c, sums, w, apart, drift, doubt is not None)
        if signs is not None:
            others = vectors[:-1]
            reference = reference.with_signs(signs[0], others, signs[2], signs[1])
        return LinearPoint(c, pair, reference, products, self.state, look, doubt)

    def _all(
        self, c: float, alpha: np.ndarray, vectors: list[np.ndarray], w_norm: float, before: np.ndarray | None
    ) -> _Looked:
        """Multiply all rows, and add up what they contribute, some shards at a time."""
        rows, first, near, sums = self.state, 0, [], NO_ROWS
        multiplied = vectors if before is None or self.tol is None else [*vectors, before]
        out = tuple(rows.empty() for _ in multiplied)
        for here, found in certifying_products(self.engine, self.data, multiplied, out, w_norm):
            near.append((here.start - first, found))
            if here.stop - first >= CHUNK or here.stop == rows.n_rows:
                part = slice(first, here.stop)
                about = alpha[part], rows.costs[part], rows.norms[part], rows.lengths[part]
                sums += sums_of(c, out[0][part], *about, w_norm, Near.joined(near))
                first, near = here.stop, []
        self.passes += 1
        look = NOTHING
        if self.tol is not None:
            known = _known(KnownVectors(), multiplied, out, self._scale()[0])
            look = Look(known, known)
        return out[: len(vectors)], replace(sums, rows=rows.trained), look, None

    def _some(
        self, c: float, pair: LinearPair, vectors: list[np.ndarray], w_norm: float, ref: LinearPoint
    ) -> _Looked | None:
        """Multiply the rows that are not known well enough; None if they are too many."""
        rows, look, alpha = self.state, ref.look, pair.alpha
        allowed = MOST_DRIFT * (self.tol or 0.0) * min(1.0, c / ref.c) * ref.certificate.primal
        if look.since >= MOST_SINCE or w_norm == 0.0 or not w_norm * pair.drift <= allowed:
            return None
        weights, weighted = self._scale()
        doubt = Doubt.of(rows, vectors, look, weights, weighted)
        if doubt is None:
            return None
        f, awake, nonzeros = rows.empty(), np.empty(rows.n_rows, np.bool_), 0
        for part in rows.chunks():
            f[part] = doubt.products(0, part, look)
            awake[part] = ~doubt.asleep(f[part], alpha[part], c * rows.costs[part], part)
            nonzeros += int(rows.lengths[part].sum(dtype=np.int64, where=awake[part]))
        share = nonzeros / max(1, self.data.nnz)
        if share > MOST_READ:
            return None
        doubt, out = doubt.waking(awake), (f, *(rows.empty() for _ in vectors[1:]))
        for k in range(1, len(vectors)):
            for part in rows.chunks():
                out[k][part] = doubt.products(k, part, look)
        near = [(0, Near.none())]
        for numbers, found, slacks in some_products(self.engine, self.data, vectors, awake, w_norm):
            for array, products in zip(out, found, strict=True):
                array[numbers] = products
            near.append((0, replace(slacks, rows=numbers[slacks.rows])))
        self.read += nonzeros
        own = _known(look.base, vectors, out, weights)
        sums = self._sums(c, f, alpha, w_norm, Near.joined(near), doubt)
        return out, sums, Look(look.base, own, awake, look.since + share, share), doubt

    def _sums(self, c: float, f: np.ndarray, alpha: np.ndarray, w_norm: float, near: Near, doubt: Doubt) -> Sums:
        """Add up what all rows contribute: those that were not read by the worst margin that they may have."""
        rows, sums = self.state, NO_ROWS
        for part in rows.chunks():
            here, w = near.within(part.start, part.stop), (1.0, *([0.0] * (len(doubt.far) - 1)))
            about = alpha[part], rows.costs[part], rows.norms[part], doubt.terms(part, w)
            sums += sums_of(c, f[part], *about, w_norm, here, ~doubt.awake[part])
        return replace(sums, rows=rows.trained)

    def _signs(self, c: float, pair: LinearPair) -> tuple[np.ndarray, float, float]:
        """Return v, sum c_i s_i and a bound on the rounding of v; u_i itself is a rounded product."""
        rows = self.state
        free = np.empty(rows.n_rows, np.bool_)
        cost, reach, count = Fraction(0), 0.0, 0
        for part in rows.chunks():
            about = rows.costs[part], rows.norms[part], free[part]
            costs, lengths, inside = at_bound(pair.alpha[part], c, *about)
            cost += Fraction(costs[0]) + Fraction(costs[1])
            reach, count = reach + sum(lengths), count + inside
        v = pair.w_alpha.copy()
        for held in self.working.visit(free):
            self.working.add_to(v, np.where(free[held], -pair.alpha[held], 0.0))
        size = root(square(pair.w_alpha))
        return v, nearest(cost), pair.drift + drift_of_sum(reach + size, count + 4)


_Looked = tuple[tuple[np.ndarray, ...], Sums, Look, Doubt | None]
NOTHING = Look(KnownVectors(), KnownVectors())  # is known to a run whose certificates read every row


def _known(
    base: KnownVectors, vectors: Sequence[np.ndarray], products: Sequence[np.ndarray], weights: np.ndarray
) -> KnownVectors:
    for v, product in zip(vectors, products, strict=True):
        base = base.extended(v, product, weights)
    return base
