"""A point of the path: (w, alpha) at C with its certificate, and the pass over all rows that makes it.

The pass multiplies every row by w, by w_alpha where that is another vector, and for bt2 and it by

    v = sum c_i s_i z_i,   s_i = [alpha_i = u_i]   (any s in [0, 1] is feasible and safe),

which is (w_alpha - the free rows' part)/C and so costs a sum over the free rows only. From the products follow the
certificate of this C and the bounds of every later one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.flow.passes import products
from pipeline.flow.row_arrays import RowArrays
from pipeline.flow.working_rows import WorkingRows
from pipeline.maths import rules
from pipeline.maths.ball import drift_of_sum
from pipeline.maths.certificate import Certificate, Sums, sums_of
from pipeline.maths.eps_grid import Reach
from pipeline.maths.regions import Region, region
from pipeline.maths.rounding import UNIT, compensated_dot
from pipeline.maths.rules import Reference


@dataclass(frozen=True)
class Point:
    """A certified pair; alpha itself and the rows' products with ``vectors`` are in the row arrays."""

    c: float
    w: np.ndarray
    w_alpha: np.ndarray
    drift: float
    reference: Reference
    certificate: Certificate
    signs_cost: float | None

    @property
    def reach(self) -> Reach:
        """What the eps-path needs to know."""
        ref, sums = self.reference, self.reference.sums
        square, alpha_square = ref.span.square(ref.w), ref.span.square(ref.w_alpha)
        return Reach(self.c, square, float(sums.alpha), float(sums.hinge), sums.rows, alpha_square)

    def region(self, c: float, rule: str) -> Region:
        """Return what ``rule`` proves about w* at C = ``c``."""
        return region(self.reference, c, rule, self.signs_cost)


class Certifier:
    """Makes points, and counts the passes that took."""

    def __init__(self, engine: Engine, data: Dataset, arrays: RowArrays, working: WorkingRows, rule: str) -> None:
        self.engine, self.data, self.arrays, self.working = engine, data, arrays, working
        self.with_signs = rule in ("bt2", "it")
        self.passes = 0

    def point(self, c: float, w: np.ndarray, w_alpha: np.ndarray, drift: float) -> Point:
        """Certify (w, alpha) at C: one pass over all rows. ``drift`` bounds |w_alpha - sum alpha_i z_i|."""
        vectors = [w] if w is w_alpha else [w, w_alpha]
        signs = self._signs(c, w_alpha, drift) if self.with_signs else None
        if signs is not None:
            vectors.append(signs[0])
        products(self.engine, self.data, vectors, self.arrays.need_products(len(vectors)))
        self.passes += 1
        w_norm = float(np.sqrt(compensated_dot(w, w)))
        sums = reduce(add, (self._sums(part, w_norm) for part in self.arrays.chunks()))
        sums = replace(sums, rows=self.arrays.trained)
        ref = rules.reference(c, sums, w, None if w is w_alpha else w_alpha, drift)
        certificate = ref.certificate
        if signs is not None:
            v, _, v_drift = signs
            inner = np.array([compensated_dot(v, x) for x in vectors[:-1]])
            ref = ref.with_vector(compensated_dot(v, v), inner, v_drift)
        return Point(c, w, w_alpha, drift, ref, certificate, None if signs is None else signs[1])

    def _sums(self, part: slice, w_norm: float) -> Sums:
        rows = self.arrays
        f = rows.products[0][part]
        return sums_of(f, rows.alpha[part], rows.costs[part], rows.norms[part], rows.lengths[part], w_norm)

    def _signs(self, c: float, w_alpha: np.ndarray, drift: float) -> tuple[np.ndarray, float, float]:
        """Return v, sum c_i s_i and a bound on the rounding of v."""
        rows = self.arrays
        free = np.empty(rows.n_rows, np.bool_)
        costs, reach, count = [], 0.0, 0
        for part in rows.chunks():
            alpha, u = rows.alpha[part], c * rows.costs[part]
            free[part] = (alpha > 0.0) & (alpha < u)
            costs.append(float(rows.costs[part][alpha == u].sum()))
            reach += float((alpha * rows.norms[part])[free[part]].sum())
            count += int(np.count_nonzero(free[part]))
        v = w_alpha.copy()
        for held in self.working.visit(free):
            self.working.add_to(v, np.where(free[held], -rows.alpha[held], 0.0))
        v /= c
        size = float(np.sqrt(compensated_dot(w_alpha, w_alpha)))
        return v, math.fsum(costs), (drift + drift_of_sum(reach + size, count + 2) + 2 * UNIT * size) / c


def bounds_of(arrays: RowArrays, found: Region, part: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds of z_i . w* for some rows, from the products of the last pass."""
    some: Sequence[np.ndarray] = [p[part] for p in arrays.products[: len(found.span.drift)]]
    return found.bounds(some, arrays.norms[part], arrays.lengths[part])
