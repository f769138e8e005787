"""Certificates: a primal value, a dual value and their gap, computed over all rows from per-shard partial sums."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pipeline.maths.rounding import UNIT, compensated_sum, product_error


@dataclass(frozen=True)
class Sums:
    """What a set of rows contributes to the certificate of (w, alpha), and to every ball made from it.

    ``hinge`` = sum c_i max(0, 1 - f_i), ``alpha`` = sum alpha_i, ``reach`` = sum alpha_i |z_i| and ``hinge_error``, a
    bound on what the rounding of the margins can have done to ``hinge``. Exact fractions, so that merging is
    associative: the result does not depend on how the shards' sums were grouped.
    """

    rows: int
    hinge: Fraction
    alpha: Fraction
    reach: Fraction
    hinge_error: Fraction

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.rows + other.rows,
            self.hinge + other.hinge,
            self.alpha + other.alpha,
            self.reach + other.reach,
            self.hinge_error + other.hinge_error,
        )


def sums_of(
    f: np.ndarray, alpha: np.ndarray, costs: np.ndarray, norms: np.ndarray, lengths: np.ndarray, w_norm: float
) -> Sums:
    """Return the sums of some rows: margins f at w (|w| = ``w_norm``), dual alpha, costs, norms and nonzeros a row."""
    error = product_error(lengths, norms, w_norm)
    near = f < 1.0 + error
    return Sums(
        rows=f.size,
        hinge=_exact(costs * np.maximum(0.0, 1.0 - f)),
        alpha=_exact(alpha),
        reach=_exact(alpha * norms),
        hinge_error=_exact(costs[near] * (error[near] + 2 * UNIT * (1.0 + np.abs(f[near])))),
    )


def _exact(x: np.ndarray) -> Fraction:
    total, error = compensated_sum(np.ascontiguousarray(x, dtype=np.float64))
    return Fraction(total) + Fraction(error)


@dataclass(frozen=True)
class Certificate:
    """P_C(w) and D_C(alpha) over ``n_rows`` rows. ``relative_gap`` is (P - D)/P, and 0 where P = 0."""

    c: float
    primal: float
    dual: float
    n_rows: int

    @property
    def gap(self) -> float:
        """P - D: how far, at most, P_C(w) is above the optimum."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """(P - D)/P."""
        return self.gap / self.primal if self.primal > 0 else 0.0


def certify(c: float, sums: Sums, w_square: float, w_alpha_square: float) -> Certificate:
    """Return the certificate at C = ``c`` from the merged sums of all rows, |w|^2 and |w_alpha|^2."""
    primal = Fraction(w_square) / 2 + Fraction(c) * sums.hinge
    dual = sums.alpha - Fraction(w_alpha_square) / 2
    return Certificate(c, float(primal), float(dual), sums.rows)
