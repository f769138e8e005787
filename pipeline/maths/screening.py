"""A rule applied to rows in memory, from reference to verdicts: the streaming passes in one place, to read and to test.

Pass 1 (certify): f_i = z_i . w for all rows, the sums, and v = sum c_i s_i z_i where bt2 or it will want it.
Pass 2 (bt2, it): q_i = z_i . v for the rows that bt1 left undecided (all rows for bt2 alone).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pipeline.maths import problem, rules
from pipeline.maths.ball import ball_bounds, centre_products, drift_of_sum
from pipeline.maths.certificate import sums_of
from pipeline.maths.intersection import intersection_bounds
from pipeline.maths.problem import Matrix
from pipeline.maths.rounding import compensated_dot
from pipeline.maths.rules import Reference
from pipeline.maths.verdicts import KEEP, verdicts

RULES = ("bt1", "bt2", "it", "gap", "none")


@dataclass(frozen=True)
class Rows:
    """Rows z_i with costs, norms and numbers of nonzeros."""

    z: Matrix
    costs: np.ndarray
    norms: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, z: Matrix, costs: np.ndarray | None = None) -> Rows:
        """Work out norms and lengths; costs are 1 unless given."""
        weights = np.ones(z.shape[0]) if costs is None else np.asarray(costs, dtype=np.float64)
        return cls(z, weights, problem.row_norms(z), problem.row_lengths(z))


@dataclass(frozen=True)
class Screened:
    """Bounds of z_i . w* and what they prove."""

    lower: np.ndarray
    upper: np.ndarray
    verdicts: np.ndarray


@dataclass(frozen=True)
class Pair:
    """A reference pair with its vectors and the margins of all rows."""

    reference: Reference
    vectors: tuple[np.ndarray, ...]
    products: tuple[np.ndarray, ...]


def refer(rows: Rows, c: float, w: np.ndarray, alpha: np.ndarray, w_alpha: np.ndarray | None = None) -> Pair:
    """Make a reference of any w and any feasible alpha at C = ``c``; w_alpha is computed unless it is given.

    Pass ``w_alpha=w`` where the solver keeps w = sum alpha_i z_i: then there is one product a row, not two.
    """
    problem.check_feasible(alpha, rows.costs, c)
    w_alpha = problem.combination(rows.z, alpha) if w_alpha is None else w_alpha
    f = problem.margins(rows.z, w)
    size = float(np.sqrt(compensated_dot(w, w)))
    sums = sums_of(f, alpha, rows.costs, rows.norms, rows.lengths, size)
    if w_alpha is w:
        return Pair(rules.reference(c, sums, w), (w,), (f,))
    g = problem.margins(rows.z, w_alpha)
    return Pair(rules.reference(c, sums, w, w_alpha), (w, w_alpha), (f, g))


def screen(rows: Rows, pair: Pair, c: float, rule: str = "it") -> Screened:
    """Return bounds and verdicts at C = ``c`` >= the reference's C, by any of ``RULES``."""
    ref, products = pair.reference, pair.products
    if rule == "none":
        n = rows.costs.size
        return _judged(np.full(n, -np.inf), np.full(n, np.inf))
    if rule == "gap" and c != ref.c:
        raise ValueError(f"the gap ball belongs to the reference's own C = {ref.c!r}, not to {c!r}")
    if c < ref.c:
        raise ValueError(f"C = {c!r} is below the reference's {ref.c!r}; alpha may not be feasible there")
    one = rules.bt1(ref, c)
    if rule in ("bt1", "gap"):
        return _judged(*ball_bounds(one, products, rows.norms, rows.lengths))
    if rule not in ("bt2", "it"):
        raise ValueError(f"unknown rule {rule!r}; there are {', '.join(RULES)}")
    s = rules.signs(centre_products(one, products))
    v = problem.combination(rows.z, rows.costs * s)
    chosen = float(np.sum(rows.costs * s))
    drift = drift_of_sum(float(np.sum(rows.costs * s * rows.norms)), rows.costs.size)
    ref = ref.with_vector(compensated_dot(v, v), np.array([compensated_dot(v, x) for x in pair.vectors]), drift)
    two = rules.bt2(ref, c, chosen)
    if rule == "bt2":
        return _judged(*ball_bounds(two, (*products, problem.margins(rows.z, v)), rows.norms, rows.lengths))
    found = _judged(*ball_bounds(one, products, rows.norms, rows.lengths))
    open_rows = np.flatnonzero(found.verdicts == KEEP)
    if open_rows.size:
        some = (*(p[open_rows] for p in products), problem.margins(rows.z[open_rows], v))
        one = replace(one, centre=(*one.centre, 0.0))
        bounds = intersection_bounds(one, two, ref.span, some, rows.norms[open_rows], rows.lengths[open_rows])
        found.lower[open_rows], found.upper[open_rows] = bounds
    return _judged(found.lower, found.upper)


def _judged(lower: np.ndarray, upper: np.ndarray) -> Screened:
    return Screened(lower, upper, verdicts(lower, upper))
