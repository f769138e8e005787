"""A rule applied to rows in memory, from reference to verdicts: the streaming passes in one place, to read and to test.

First f_i = z_i . w for all rows and the sums; for bt2 and it also v = C sum c_i s_i z_i and z_i . v. Here s is the
paper's s-hat, chosen for C; the path takes another (see ``pipeline.maths.rules.bt2``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pipeline.maths.ball import centre_products, drift_of_sum
from pipeline.maths.certificate import check_feasible, sums_of
from pipeline.maths.certified_pair import CertifiedPair, certified_pair
from pipeline.maths.rounding import root, square
from pipeline.maths.rules import RULES, bt1, rule_named
from pipeline.maths.verdicts import KEEP, Screened, verdicts
from tests.in_memory import problem
from tests.in_memory.problem import Matrix

UPWARDS = tuple(rule for rule in RULES if rule not in ("gap", "none"))  # those that prove anything at another C


@dataclass(frozen=True)
class MemoryRows:
    """Rows z_i in memory, sparse or dense, with costs, norms and numbers of nonzeros."""

    z: Matrix
    costs: np.ndarray
    norms: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, z: Matrix, costs: np.ndarray | None = None) -> MemoryRows:
        """Work out norms and lengths; costs are 1 unless given."""
        weights = np.ones(z.shape[0]) if costs is None else np.asarray(costs, dtype=np.float64)
        return cls(z, weights, problem.row_norms(z), problem.row_lengths(z))


@dataclass(frozen=True)
class MemoryPair:
    """A certified pair with its vectors and the products of all rows with them."""

    reference: CertifiedPair
    vectors: tuple[np.ndarray, ...]
    products: tuple[np.ndarray, ...]


def refer(
    rows: MemoryRows, c: float, w: np.ndarray, alpha: np.ndarray, w_alpha: np.ndarray | None = None
) -> MemoryPair:
    """Make a reference of any w and any feasible alpha at C = ``c``; w_alpha is computed unless it is given.

    Pass ``w_alpha=w`` where the solver keeps w = sum alpha_i z_i: then there is one product a row, not two.
    """
    check_feasible(alpha, rows.costs, c)
    w_alpha = problem.combination(rows.z, alpha) if w_alpha is None else w_alpha
    f = problem.margins(rows.z, w)
    size = root(square(w)) * (1 + 1e-12)
    sums = sums_of(c, f, alpha, rows.costs, rows.norms, rows.lengths, size)
    if w_alpha is w:
        return MemoryPair(certified_pair(c, sums, w), (w,), (f,))
    g = problem.margins(rows.z, w_alpha)
    return MemoryPair(certified_pair(c, sums, w, w_alpha), (w, w_alpha), (f, g))


def screen(rows: MemoryRows, pair: MemoryPair, c: float, rule: str = "it") -> Screened:
    """Return bounds and verdicts at C = ``c`` >= the reference's C, by any rule."""
    ref, products, chosen = pair.reference, pair.products, rule_named(rule)
    if rule == "gap" and c != ref.c:
        raise ValueError(f"the gap ball belongs to the reference's own C = {ref.c!r}, not to {c!r}")
    if c < ref.c:
        raise ValueError(f"C = {c!r} is below the reference's {ref.c!r}; the paper's rules go upwards")
    if chosen.needs_signs:
        s = signs(centre_products(bt1.ball(ref, c), products))
        upper = ref.c * rows.costs * s
        v = problem.combination(rows.z, upper)
        drift = drift_of_sum(float(np.sum(upper * rows.norms)), rows.costs.size + 2)
        ref = ref.with_signs(v, pair.vectors, drift, math.fsum(rows.costs * s))
        products = (*products, problem.margins(rows.z, v))
    lower, upper, _ = chosen.region(ref, c).bounds(products, rows.norms, [rows.lengths] * 2)
    return Screened(lower, upper, verdicts(lower, upper))


def signs(first: np.ndarray) -> np.ndarray:
    """Return the paper's s-hat: s_i = 1 where m1 . z_i < 1, else 0; ``first`` are bt1's centre products m1 . z_i."""
    return (first < 1.0).astype(np.float64)


def screened_share(found: np.ndarray) -> float:
    """Return the plain fraction of all rows that are decided."""
    return float(np.count_nonzero(found != KEEP)) / max(1, found.size)


def screening_rate(found: np.ndarray, on_margin: np.ndarray) -> float:
    """Return the paper's rate: decided rows over all rows that are not on the margin (f_i = 1) at the optimum."""
    decidable = found.size - int(np.count_nonzero(on_margin))
    return float(np.count_nonzero(found != KEEP)) / decidable if decidable else 1.0
