"""A rule applied to rows in memory, from reference to verdicts: the streaming passes in one place, to read and to test.

First f_i = z_i . w for all rows and the sums; for bt2 and it also v = C sum c_i s_i z_i (the paper's s) and z_i . v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pipeline.maths import problem, rules
from pipeline.maths.ball import centre_products, drift_of_sum
from pipeline.maths.certificate import sums_of
from pipeline.maths.problem import Matrix
from pipeline.maths.regions import region
from pipeline.maths.rounding import root, square
from pipeline.maths.rules import Reference
from pipeline.maths.verdicts import verdicts


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
    size = root(square(w)) * (1 + 1e-12)
    sums = sums_of(c, f, alpha, rows.costs, rows.norms, rows.lengths, size)
    if w_alpha is w:
        return Pair(rules.reference(c, sums, w), (w,), (f,))
    g = problem.margins(rows.z, w_alpha)
    return Pair(rules.reference(c, sums, w, w_alpha), (w, w_alpha), (f, g))


def screen(rows: Rows, pair: Pair, c: float, rule: str = "it") -> Screened:
    """Return bounds and verdicts at C = ``c`` >= the reference's C, by any rule."""
    ref, products, chosen = pair.reference, pair.products, None
    if rule == "gap" and c != ref.c:
        raise ValueError(f"the gap ball belongs to the reference's own C = {ref.c!r}, not to {c!r}")
    if c < ref.c:
        raise ValueError(f"C = {c!r} is below the reference's {ref.c!r}; alpha may not be feasible there")
    if rule in ("bt2", "it"):
        s = rules.signs(centre_products(rules.bt1(ref, c), products))
        upper = ref.c * rows.costs * s
        v = problem.combination(rows.z, upper)
        chosen = math.fsum(rows.costs * s)
        ref = ref.with_vector(v, pair.vectors, drift_of_sum(float(np.sum(upper * rows.norms)), rows.costs.size + 2))
        products = (*products, problem.margins(rows.z, v))
    lower, upper = region(ref, c, rule, chosen).bounds(products, rows.norms, rows.lengths)
    return Screened(lower, upper, verdicts(lower, upper))
