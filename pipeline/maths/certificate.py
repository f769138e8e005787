"""Certificates: bounds of the primal and the dual value over all rows that hold in exact arithmetic.

The problem is the linear SVM with hinge loss: for rows z_i = y_i x_i with costs c_i and C > 0, with f_i = z_i . w,

    primal   P_C(w)     = |w|^2/2 + C sum_i c_i max(0, 1 - f_i)
    dual     D_C(alpha) = sum_i alpha_i - |w_alpha|^2/2,    0 <= alpha_i <= u_i = C c_i,    w_alpha = sum_i alpha_i z_i,

P_C(w) >= D_C(alpha), with equality at the optimum alone. For ANY w and ANY feasible alpha (Fenchel and Young)

    P_C(w) - D_C(alpha) = sum_i [u_i max(0, 1 - f_i) - alpha_i (1 - f_i)] + |w - w_alpha|^2/2,

and every term is >= 0: nothing cancels, and a row at the bound where it belongs adds exactly 0, whatever rounding has
done to its margin. What is known of a slack is s_i = 1 - f_i to within e_i; both sums are largest at an end of
[s_i - e_i, s_i + e_i], being convex. So

    P in [|w|^2/2 + C sum c_i max(0, s_i - e_i),  |w|^2/2 + C sum c_i max(0, s_i + e_i)],
    D >= (the lower bound of P) - (the upper bound of the gap).

e_i is that of a dot product in float64 (``rounding.product_error``), or almost nothing for the rows near the margin
(``slack``). w_alpha is known to within its drift. alpha is in the box of the float64 products C c_i, which may be above
the exact ones by a unit: the bound of D is that of alpha (1 - 2^-51), which is feasible to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import SpecError
from pipeline.jit import inline, kernel
from pipeline.maths.rounding import UNDERFLOW, UNIT, add_up, down, gamma, nearest, product_error, up
from pipeline.maths.slack import Near

_FEASIBLE = Fraction(2) ** -51  # alpha times 1 less that is in the box of the exact C c_i (see above)
BLURRED = 4.0  # roundings of its product with w that a row may be off the margin and still be meant to be on it


@dataclass(frozen=True)
class Sums:
    """What a set of rows contributes to the certificate of (w, alpha) at C, and to every ball made from it.

    ``hinge`` and ``hinge_low`` bound sum c_i max(0, 1 - f_i), ``gap`` bounds the gap's sum from above; ``alpha`` = sum
    alpha_i, ``reach`` >= sum alpha_i |z_i|. ``blurred`` = sum c_i e_i over the rows that are as close to the margin as
    float64's rounding of f_i: what no w in float64 can be expected to get right. Exact fractions, so that merging is
    associative: the result does not depend on how the shards' sums were grouped.
    """

    rows: int
    hinge: Fraction
    hinge_low: Fraction
    gap: Fraction
    alpha: Fraction
    reach: Fraction
    blurred: Fraction

    @property
    def alpha_rounding(self) -> Fraction:
        """What share of ``alpha`` may have been lost when it was added up."""
        return _shares(self.rows)[0]

    def __add__(self, other: Sums) -> Sums:
        if self is NO_ROWS:  # of data that are one chunk
            return other
        return Sums(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


NO_ROWS = Sums(0, *([Fraction(0)] * 6))


def sums_of(
    c: float,
    f: np.ndarray,
    alpha: np.ndarray,
    costs: np.ndarray,
    norms: np.ndarray,
    lengths: np.ndarray,
    w_norm: float,
    near: Near | None = None,
    asleep: np.ndarray | None = None,
) -> Sums:
    """Return the sums of some rows: margins f at w (|w| <= ``w_norm``), dual alpha, costs, norms and nonzeros a row.

    ``near`` has the slacks that are known better than as 1 - f_i. Rows that are ``asleep`` have margins that are known
    less well, for another reason than rounding: they count as products of more terms than they have, and are never
    blurred. An alpha outside its box, which would certify nothing, is a ValueError.
    """
    better, errors = near or Near.none(), product_error(lengths, norms, w_norm)
    asleep = np.zeros(f.size, np.bool_) if asleep is None else asleep
    slacks = better.rows, better.slack, better.error
    feasible, totals = _row_sums(f, errors, slacks, alpha, costs, norms, c, asleep)
    if not feasible:
        check_feasible(alpha, costs, c)
    if not all(math.isfinite(total) and math.isfinite(error) for total, error in totals):
        raise SpecError(f"at C = {c:.6g} margins or sums are beyond float64's range; scale the features")
    hinge, low, gap, alphas, reach, blurred = (Fraction(total) + Fraction(error) for total, error in totals)
    return Sums(
        f.size,
        hinge + _rounding(hinge, f.size),
        max(Fraction(0), low - _rounding(low, f.size)),
        gap + _rounding(gap, f.size),
        alphas,
        reach + _rounding(reach, f.size),
        blurred,
    )


def _rounding(total: Fraction, n: int) -> Fraction:
    """Return what the rounding of n terms and of their sum may add to it or take from it, underflow included."""
    share, tiny, negligible = _shares(n)
    return total * share if total > negligible else total * share + tiny


@lru_cache
def _shares(n: int) -> tuple[Fraction, Fraction, Fraction]:
    """Return the share of a sum of n terms that rounding may be worth, and what underflow is worth in any case.

    Beside sums above the third number that is less than the share is above what it has to be. Numbers of 1,000 bits
    would make exact arithmetic slow.
    """
    share, tiny = 8 * Fraction(UNIT) + Fraction(float(gamma(float(n)))) ** 2, n * Fraction(UNDERFLOW)
    spared = Fraction(UNIT) / 1024
    return share + spared, tiny, tiny / spared


def check_feasible(alpha: np.ndarray, costs: np.ndarray, c: float) -> None:
    """Raise ValueError unless 0 <= alpha_i <= C c_i: an infeasible alpha certifies nothing."""
    outside = np.flatnonzero(~((alpha >= 0) & (alpha <= c * costs)))
    if outside.size:
        i = int(outside[0])
        raise ValueError(f"alpha[{i}] = {alpha[i]:.17g} is outside [0, {c * costs[i]:.17g}]; clip it before certifying")


@inline
def _gap_at(slack, alpha, u):  # type: ignore[no-untyped-def]
    return (u - alpha) * slack if slack > 0.0 else -alpha * slack


@kernel
def _row_sums(f, errors, near, alpha, costs, norms, c, asleep):  # type: ignore[no-untyped-def]
    """Return whether every alpha is in its box, and the sums, each as a total and what adding up has lost.

    These are hinge, its lower bound, gap, alpha, reach and blurred.
    """
    near_rows, near_slack, near_error = near
    feasible = True
    k = 0
    hinge = lower = gap = sum_alpha = reach = blurred = 0.0
    hinge_lost = lower_lost = gap_lost = alpha_lost = reach_lost = blurred_lost = 0.0
    for i in range(f.size):
        slack, plain = 1.0 - f[i], errors[i] + 4 * UNIT * (1.0 + abs(f[i]))
        error = plain
        if k < near_rows.size and near_rows[k] == i:
            slack, error = near_slack[k], near_error[k]
            k += 1
        low, high = slack - error, slack + error
        u = c * costs[i]
        feasible = feasible and 0.0 <= alpha[i] <= u
        if costs[i] > 0.0:
            if high > 0.0:
                hinge, hinge_lost = add_up(hinge, hinge_lost, costs[i] * high)
            if low > 0.0:
                lower, lower_lost = add_up(lower, lower_lost, costs[i] * low)
            at_low, at_high = _gap_at(low, alpha[i], u), _gap_at(high, alpha[i], u)
            gap, gap_lost = add_up(gap, gap_lost, at_low if at_low > at_high else at_high)
            if abs(slack) <= BLURRED * plain and not asleep[i]:
                blurred, blurred_lost = add_up(blurred, blurred_lost, costs[i] * plain)
        sum_alpha, alpha_lost = add_up(sum_alpha, alpha_lost, alpha[i])
        reach, reach_lost = add_up(reach, reach_lost, alpha[i] * norms[i])
    rest = (sum_alpha, alpha_lost), (reach, reach_lost), (blurred, blurred_lost)
    return feasible, ((hinge, hinge_lost), (lower, lower_lost), (gap, gap_lost), *rest)


@kernel
def at_bound(alpha, c, costs, norms, free):  # type: ignore[no-untyped-def]
    """Write which alpha are inside their box; return the sum of the costs of those at its top, that of alpha_i |z_i|,
    each as a total and what adding up has lost, and how many are inside.
    """
    cost = cost_lost = reach = reach_lost = 0.0
    count = 0
    for i in range(alpha.size):
        u = c * costs[i]
        free[i] = 0.0 < alpha[i] < u
        count += free[i]
        if alpha[i] == u:
            cost, cost_lost = add_up(cost, cost_lost, costs[i])
        reach, reach_lost = add_up(reach, reach_lost, alpha[i] * norms[i])
    return (cost, cost_lost), (reach, reach_lost), count


@dataclass(frozen=True)
class Certificate:
    """``primal`` >= P_C(w) and ``dual`` <= D_C(alpha) over all rows.

    ``unattainable`` is the part of the gap that float64 itself may be the cause of: rows on the margin to within the
    rounding of their products with w.
    """

    c: float
    primal: float
    dual: float
    unattainable: float = 0.0

    @cached_property
    def gap(self) -> float:
        """How far, at most, P_C(w) is above the optimum."""
        return up(Fraction(self.primal) - Fraction(self.dual)) if self._is_finite else math.inf

    @cached_property
    def relative_gap(self) -> float:
        """(P - D)/P, rounded up; 0 where P = 0. Where D < 0 that is above 1 and proves nothing."""
        if not self._is_finite:
            return math.inf
        return up(1 - Fraction(self.dual) / Fraction(self.primal)) if self.primal > 0 else 0.0

    @property
    def _is_finite(self) -> bool:
        """Whether both values are within float64's range."""
        return math.isfinite(self.primal) and math.isfinite(self.dual)


def certify(
    c: float, sums: Sums, w_square: tuple[Fraction, Fraction], apart: float, dual_square: Fraction | None = None
) -> Certificate:
    """Return the certificate at C = ``c`` from the merged sums of all rows.

    ``w_square`` are bounds of |w|^2, ``apart`` bounds |w - w_alpha|. Where ``dual_square`` >= |w_alpha|^2 is given, the
    dual value is bounded by its definition, too.
    """
    exact_c = Fraction(c)
    low = w_square[0] / 2 + exact_c * sums.hinge_low
    primal = w_square[1] / 2 + exact_c * sums.hinge
    gap = sums.gap + Fraction(apart) ** 2 / 2 + _FEASIBLE * (sums.alpha + exact_c * sums.hinge)
    dual = low - gap
    if dual_square is not None:
        dual = max(dual, sums.alpha * (1 - _FEASIBLE - sums.alpha_rounding) - dual_square / 2)
    return Certificate(c, up(primal), down(dual), nearest(exact_c * sums.blurred))


def hinge_by_gap(c: float, sums: Sums, product: Fraction, error: float) -> Sums:
    """Return the sums with the hinge bounded by the gap's identity, where margins are known too badly to add it up.

    C sum c_i max(0, 1 - f_i) = (the gap's sum) + sum alpha_i - w . w_alpha: rows that are where they belong add nothing
    to the gap's sum, however little is known of their margins. ``product`` is w . w_alpha to within ``error``.
    """
    loss = sums.gap + sums.alpha * (1 + sums.alpha_rounding) - product + Fraction(error)
    return replace(sums, hinge=min(sums.hinge, max(Fraction(0), loss) * (1 + _FEASIBLE) / Fraction(c)))
