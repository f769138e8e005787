"""A point of the path: (w, alpha) at C with its certificate, and the pass over all rows that makes it.

The pass multiplies every row by w, by w_alpha where that is another vector, and for bt2 and it by

    v = C sum c_i s_i z_i,   s_i = [alpha_i = u_i]   (any s in [0, 1] is feasible and safe),

which is w_alpha - the free rows' part and so costs a sum over the free rows only. From the products follow the
certificate of this C and the bounds of every later one.

The products and alpha are in the row arrays, where the next pass and the next solve write over them: a point that is
asked for what is no longer there raises, and so proves nothing that is not its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.maths.ball import drift_of_sum
from pipeline.maths.certificate import BLURRED, NO_ROWS, Certificate, Sums, sums_of
from pipeline.maths.certified_pair import CertifiedPair, certified_pair
from pipeline.maths.eps_grid import Reach
from pipeline.maths.region import Region
from pipeline.maths.rounding import LEAST_NORMAL, UNIT, product_error, root, square
from pipeline.maths.rules import rule_named
from pipeline.maths.slack import Near
from pipeline.passes.products import certifying_products
from pipeline.working.rows import WorkingRows
from pipeline.working.state import CHUNK, RowArrays

SAFE = 1 + 1e-12  # more than the rounding of norms and of a few operations


@dataclass(frozen=True)
class Point:
    """A certified pair; the rows' products with ``vectors`` are in the row arrays until the next pass."""

    c: float
    w: np.ndarray
    w_alpha: np.ndarray
    drift: float
    reference: CertifiedPair
    arrays: RowArrays
    changed: int
    written: int

    @property
    def alpha(self) -> np.ndarray:
        """The dual variables, until others are written."""
        if self.changed != self.arrays.changed:
            raise RuntimeError(f"alpha of the point at C = {self.c!r} was overwritten")
        return self.arrays.alpha

    @property
    def products(self) -> list[np.ndarray]:
        """The rows' products with the span's vectors, until the next pass."""
        return self.arrays.products(self.written)[: len(self.reference.span.drift)]

    @property
    def margins(self) -> np.ndarray:
        """The rows' products with w, until the next pass."""
        return self.products[0]

    @property
    def certificate(self) -> Certificate:
        """What is proven of the pair itself."""
        return self.reference.certificate

    @property
    def reach(self) -> Reach:
        """What the eps-path needs to know, all on the safe side, in the units of the reference's span."""
        ref, span = self.reference, self.reference.span
        sizes = (span.size(ref.w), span.size(ref.w_alpha) + self.drift / span.unit)
        square, alpha_square = (size * size * SAFE for size in sizes)
        loss, alpha = ref.energies
        return Reach(self.c, square, alpha / SAFE, loss / self.c * SAFE, ref.sums.rows, alpha_square)

    @property
    def lift(self) -> float:
        """By what share w must be longer for all rows on its margin, to within rounding, to be outside it."""
        rows, f, found = self.arrays, self.margins, 0.0
        size = root(square(self.w)) * SAFE
        for part in rows.chunks():
            error = product_error(rows.lengths[part], rows.norms[part], size) + 4 * UNIT
            blurred = (np.abs(1.0 - f[part]) <= BLURRED * error) & (rows.costs[part] > 0.0)
            found = max(found, float(error.max(initial=0.0, where=blurred)))
        return 2 * BLURRED * found

    def proof(self, c: float, rule: str) -> Proof:
        """Return what ``rule`` proves about the rows at C = ``c``."""
        return Proof(self, rule_named(rule).region(self.reference, c))


@dataclass(frozen=True)
class Proof:
    """A region that holds w* at some C, with the products that turn it into bounds of z_i . w*."""

    point: Point
    region: Region

    @property
    def proves(self) -> bool:
        """Whether there is any bound at all."""
        return bool(self.region.balls)

    def bounds(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds for some rows."""
        rows = self.point.arrays
        some = [p[part] for p in self.point.products]
        return self.region.bounds(some, rows.norms[part], rows.lengths[part])


class Certifier:
    """Makes points, and counts the passes that took."""

    def __init__(self, engine: Engine, data: Dataset, arrays: RowArrays, working: WorkingRows, rule: str) -> None:
        self.engine, self.data, self.arrays, self.working = engine, data, arrays, working
        self.with_signs = rule_named(rule).needs_signs
        used = ((arrays.costs[p], arrays.costs[p] > 0.0) for p in arrays.chunks())
        self.least_cost = min(float(costs.min(initial=np.inf, where=some)) for costs, some in used)
        self.passes = 0

    def point(self, c: float, w: np.ndarray, w_alpha: np.ndarray, drift: float) -> Point:
        """Certify (w, alpha) at C: one pass over all rows. ``drift`` bounds |w_alpha - sum alpha_i z_i|."""
        rows, vectors = self.arrays, [w] if w is w_alpha else [w, w_alpha]
        if c * self.least_cost < LEAST_NORMAL:
            raise SpecError(f"C = {c:.6g} times a row's cost is below float64's range; scale features or weights")
        signs = self._signs(c, w_alpha, drift) if self.with_signs else None
        if signs is not None:
            vectors.append(signs[0])
        sums = self._pass(c, vectors, root(square(w)) * SAFE)
        ref = certified_pair(c, sums, w, None if w is w_alpha else w_alpha, drift)
        if signs is not None:
            ref = ref.with_signs(signs[0], vectors[:-1], signs[2], signs[1])
        return Point(c, w, w_alpha, drift, ref, rows, rows.changed, rows.written)

    def _pass(self, c: float, vectors: list[np.ndarray], w_norm: float) -> Sums:
        """Multiply all rows, and add up what they contribute, some shards at a time."""
        rows, first, near, sums = self.arrays, 0, [], NO_ROWS
        out = rows.need_products(len(vectors))
        for here, found in certifying_products(self.engine, self.data, vectors, out, w_norm):
            near.append((here.start - first, found))
            if here.stop - first >= CHUNK or here.stop == rows.n_rows:
                part = slice(first, here.stop)
                about = rows.alpha[part], rows.costs[part], rows.norms[part], rows.lengths[part]
                sums += sums_of(c, out[0][part], *about, w_norm, Near.joined(near))
                first, near = here.stop, []
        self.passes += 1
        return replace(sums, rows=rows.trained)

    def _signs(self, c: float, w_alpha: np.ndarray, drift: float) -> tuple[np.ndarray, float, float]:
        """Return v, sum c_i s_i and a bound on the rounding of v; u_i itself is a rounded product."""
        rows = self.arrays
        free = np.empty(rows.n_rows, np.bool_)
        costs, reach, count = [], 0.0, 0
        for part in rows.chunks():
            alpha, u = rows.alpha[part], c * rows.costs[part]
            free[part] = (alpha > 0.0) & (alpha < u)
            costs.append(math.fsum(rows.costs[part][alpha == u]))
            reach += float(alpha @ rows.norms[part])
            count += int(np.count_nonzero(free[part]))
        v = w_alpha.copy()
        for held in self.working.visit(free):
            self.working.add_to(v, np.where(free[held], -rows.alpha[held], 0.0))
        size = root(square(w_alpha))
        return v, math.fsum(costs), drift + drift_of_sum(reach + size, count + 4)
