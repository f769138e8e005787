"""Points of the linear space, and the pass over all rows that makes them.

The pass multiplies every row by w, by w_alpha where that is another vector, and for bt2 and it by

    v = C sum c_i s_i z_i,   s_i = [alpha_i = u_i]   (any s in [0, 1] is feasible and safe),

which is w_alpha - the free rows' part and so costs a sum over the free rows only. From the products follow the
certificate of this C and the bounds of every later one.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.maths.ball import drift_of_sum
from pipeline.maths.certificate import BLURRED, NO_ROWS, Sums, at_bound, sums_of
from pipeline.maths.certified_pair import certified_pair
from pipeline.maths.rounding import LEAST_NORMAL, UNIT, nearest, product_error, root, square
from pipeline.maths.rules import rule_named
from pipeline.maths.slack import Near
from pipeline.passes.products import certifying_products
from pipeline.path.point import SAFE, CertifiedPoint
from pipeline.working.rows import WorkingRows
from pipeline.working.solver import LinearPair
from pipeline.working.state import CHUNK


class LinearPoint(CertifiedPoint):
    """A point whose w is a vector."""

    pair: LinearPair

    @property
    def drift(self) -> float:
        """A bound on what rounding has done to w_alpha."""
        return self.pair.drift

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
    """Makes points, and counts the passes that took."""

    def __init__(self, engine: Engine, data: Dataset, working: WorkingRows, rule: str) -> None:
        self.engine, self.data, self.working, self.state = engine, data, working, working.state
        self.with_signs = rule_named(rule).needs_signs
        state = self.state
        used = ((state.costs[p], state.costs[p] > 0.0) for p in state.chunks())
        self.least_cost = min(float(costs.min(initial=np.inf, where=some)) for costs, some in used)
        self.passes = 0

    def point(self, c: float, pair: LinearPair) -> LinearPoint:
        """Certify a pair at C: one pass over all rows."""
        w, apart, drift = pair.w, None if pair.w_alpha is pair.w else pair.w_alpha, pair.drift
        vectors = [w] if apart is None else [w, apart]
        if c * self.least_cost < LEAST_NORMAL:
            raise SpecError(f"C = {c:.6g} times a row's cost is below float64's range; scale features or weights")
        signs = self._signs(c, pair) if self.with_signs else None
        if signs is not None:
            vectors.append(signs[0])
        products, sums = self._pass(c, pair.alpha, vectors, root(square(w)) * SAFE)
        ref = certified_pair(c, sums, w, apart, drift)
        if signs is not None:
            ref = ref.with_signs(signs[0], vectors[:-1], signs[2], signs[1])
        return LinearPoint(c, pair, ref, products, self.state)

    def _pass(
        self, c: float, alpha: np.ndarray, vectors: list[np.ndarray], w_norm: float
    ) -> tuple[tuple[np.ndarray, ...], Sums]:
        """Multiply all rows, and add up what they contribute, some shards at a time."""
        rows, first, near, sums = self.state, 0, [], NO_ROWS
        out = tuple(rows.empty() for _ in vectors)
        for here, found in certifying_products(self.engine, self.data, vectors, out, w_norm):
            near.append((here.start - first, found))
            if here.stop - first >= CHUNK or here.stop == rows.n_rows:
                part = slice(first, here.stop)
                about = alpha[part], rows.costs[part], rows.norms[part], rows.lengths[part]
                sums += sums_of(c, out[0][part], *about, w_norm, Near.joined(near))
                first, near = here.stop, []
        self.passes += 1
        return out, replace(sums, rows=rows.trained)

    def _signs(self, c: float, pair: LinearPair) -> tuple[np.ndarray, float, float]:
        """Return v, sum c_i s_i and a bound on the rounding of v; u_i itself is a rounded product."""
        rows = self.state
        free = np.empty(rows.n_rows, np.bool_)
        cost, reach, count = Fraction(0), 0.0, 0
        for part in rows.chunks():
            totals = np.zeros((2, 2))
            at_bound(pair.alpha[part], c, rows.costs[part], rows.norms[part], free[part], totals)
            cost += Fraction(totals[0, 0]) + Fraction(totals[0, 1])
            reach += totals[1, 0] + totals[1, 1]
            count += int(np.count_nonzero(free[part]))
        v = pair.w_alpha.copy()
        for held in self.working.visit(free):
            self.working.add_to(v, np.where(free[held], -pair.alpha[held], 0.0))
        size = root(square(pair.w_alpha))
        return v, nearest(cost), pair.drift + drift_of_sum(reach + size, count + 4)
