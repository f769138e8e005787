"""Certificates that need the kernel values of few rows: the rest stays asleep.

Let all rows' margins be known at a pair b (its f_b, |w_b|, and V_b = sum c_i s_i z_i by |V_b|^2 and g_b). For a pair
near it, V = V_b + sum_delta d_j c_j z_j (rows that came to their bound, d = 1, or left it, d = -1), with free rows F,

    |V|^2 = |V_b|^2 + sum_delta d_j c_j ((Q c s_b)_j + (Q c s)_j),    |w|^2 = C^2 |V|^2 + 2 C w_F . V + |w_F|^2

need kernel values of the rows of delta and F alone. With rho = w . w_b/|w_b|^2 and e = w - rho w_b, by Cauchy-Schwarz

    z_i . w  in  rho f_b,i -/+ |z_i| |e|,    |e|^2 = |w|^2 - 2 rho w . w_b + rho^2 |w_b|^2,
    w . w_b = sum alpha_i f_b,i.

A row whose interval lies above 1 with alpha_i = 0 adds nothing to the hinge sum, nor to the gap. The rows U whose
interval lies below 1 with alpha_i = u_i add nothing to the gap, and to the hinge sum together

    c(U) - w . V_U,    w . V_U = C |V|^2 + w_F . V - (the same sum over the rows at their bound that are awake).

Only rows in between are woken. The certificate is the same bound over all rows, rounding included. A step's last
certificate wakes all: what the next step starts from depends on alpha alone, and not on how it was come by.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.certificate import Sums, certify, sums_of
from pipeline.maths.certified_pair import CertifiedPair, unit_of
from pipeline.maths.rounding import SAFE, UNIT, nearest
from pipeline.path.kernel_certify import (
    Doubted,
    KernelCertifier,
    KernelPair,
    KernelPoint,
    KnownPoint,
    Signed,
    bounds_of,
    doubted,
    norm_above,
    span_of,
    terms_of,
)
from pipeline.path.kernel_sides import Sides

WORTH_IT = 0.5  # of the rows: with more of them awake, all are woken, and known from then on


@dataclass(frozen=True)
class _Change:
    """What is known of a pair from the rows of delta and F, which ``core`` marks."""

    signs: np.ndarray
    change: np.ndarray
    free: np.ndarray
    core: np.ndarray
    g: Sides
    h: Sides
    v_square: Doubted
    cross: Doubted  # w_F . V
    w_square: Doubted


class LazyCertifier:
    """Certifies pairs near one that is known by waking few rows."""

    def __init__(self, eager: KernelCertifier) -> None:
        self.eager, self.state, self.passes = eager, eager.state, eager.passes
        self.woken = 0.0

    def start(self) -> None:
        """Begin to count anew how many times all rows were woken, all in all."""
        self.woken = 0.0

    def point(self, c: float, pair: KernelPair) -> KernelPoint | None:
        """Return a pair's point, if few rows need be woken for it; else None."""
        near = pair.near
        if near is None or near.at is None or self.woken >= 1.0:
            return None
        found = self._change(c, pair, near, near.at)
        if found is None:
            return None
        rho, apart = self._apart(pair.alpha, near.at, found)
        rows, awake = self.state, found.core.copy()
        f, errors = rows.empty(), rows.empty()
        for part in rows.chunks():
            f[part] = rho * near.at.margins[part]
            width = apart * self.eager.kernel.norm * SAFE
            errors[part] = (width + abs(rho) * near.at.errors[part] + 4 * UNIT * abs(f[part])) * SAFE
            above = (f[part] - errors[part] >= 1.0) & (pair.alpha[part] == 0.0)
            below = (f[part] + errors[part] <= 1.0) & found.signs[part]
            awake[part] |= ~(above | below) & (rows.costs[part] > 0.0)
        share = float(np.count_nonzero(awake)) / rows.n_rows
        if share > WORTH_IT:
            return None
        self.woken += share
        self._wake(c, pair.alpha, found, awake, f, errors)
        return self._point(c, pair, found, awake, f, errors)

    def _change(self, c: float, pair: KernelPair, near: Signed, known: KnownPoint) -> _Change | None:
        """Evaluate the rows that have changed since; None if they are too many."""
        eager, rows = self.eager, self.state
        signs, free = eager.split(c, pair.alpha)
        change = eager.change(signs, near)
        core = (change != 0.0) | (free != 0.0)
        if np.count_nonzero(core) > WORTH_IT * rows.n_rows:
            return None
        g, h = eager.begun(near, free)
        self.passes.add([*g.wanted(rows, change), *h.wanted(rows, free)], core)
        some = np.flatnonzero(core)
        labels, squares = rows.labels[some], eager.squares[some]
        now, before = (np.where(mask, rows.costs, 0.0) for mask in (signs, near.signs))
        delta, inside = change[some], free[some]

        def error(sums: Sides, coefficients: np.ndarray) -> np.ndarray:
            total, lost = float(coefficients.sum()) * SAFE, sums.lost(coefficients)
            return eager.error(squares, sums.total(some), coefficients[some], total, lost)

        now_error, own_error = error(g, now), error(h, free)
        step_error = now_error + error(near.g, before)
        moved = labels * (near.g.difference(some) + g.difference(some))
        step = doubted(delta, moved, float(np.abs(delta) @ step_error))
        before_square = known.v_square
        v_square = before_square[0] + step[0], (before_square[1] + step[1]) * SAFE
        cross = doubted(inside, labels * g.difference(some), float(inside @ now_error))
        own = doubted(inside, labels * h.difference(some), float(inside @ own_error))
        big = Fraction(c)
        w_square = big * big * v_square[0] + 2 * big * cross[0] + own[0]
        doubt = (c * c * v_square[1] + 2 * c * cross[1] + own[1]) * SAFE + 8 * UNIT * abs(nearest(w_square))
        return _Change(signs, change, free, core, g, h, v_square, cross, (w_square, doubt))

    def _apart(self, alpha: np.ndarray, known: KnownPoint, found: _Change) -> tuple[float, float]:
        """Return rho, and a bound of |w - rho w_b|."""
        product, doubt = doubted(alpha, known.margins, float(alpha @ known.errors))
        ours, base = bounds_of(found.w_square)[1], bounds_of(known.w_square)[1]
        rho = nearest(product / base) if base > 0 else 0.0
        exact = Fraction(rho)
        square = ours - 2 * exact * product + exact * exact * base + 2 * abs(exact) * Fraction(doubt)
        return rho, math.sqrt(max(0.0, nearest(square))) * SAFE

    def _wake(
        self, c: float, alpha: np.ndarray, found: _Change, awake: np.ndarray, f: np.ndarray, errors: np.ndarray
    ) -> None:
        """Write the margins of the rows that are awake, and their errors."""
        state, others = self.state, awake & ~found.core
        if others.any():
            self.passes.add([*found.g.wanted(state, found.change), *found.h.wanted(state, found.free)], others)
        rows = np.flatnonzero(awake)
        f[rows] = state.labels[rows] * (c * found.g.difference(rows) + found.h.difference(rows))
        sums = c * found.g.total(rows) + found.h.total(rows)
        lost = c * found.g.lost(found.signs) + found.h.lost(found.free)
        error, total = self.eager.error, float(alpha.sum()) * SAFE
        errors[rows] = error(self.eager.squares[rows], sums, alpha[rows], total, lost)

    def _point(
        self, c: float, pair: KernelPair, found: _Change, awake: np.ndarray, f: np.ndarray, errors: np.ndarray
    ) -> KernelPoint:
        rows, norm = self.state, self.eager.kernel.norm
        between = bounds_of(found.w_square)
        w_norm, some = norm_above(between[1]), np.flatnonzero(awake)
        terms = terms_of(errors[some], norm, w_norm)
        sums = sums_of(c, f[some], pair.alpha[some], rows.costs[some], rows.norms[some], terms, w_norm)
        sums = replace(sums + self._asleep(c, pair, found, awake, f, errors), rows=rows.trained)
        unit = unit_of(between[1] / 2 + Fraction(c) * sums.hinge)
        found_pair = certify(c, sums, between, 0.0)
        reference = CertifiedPair(c, sums, span_of(unit, found.w_square), (1.0,), (1.0,), found_pair)
        owner = replace(pair, margins=f, awake=awake)
        return KernelPoint(c, owner, reference, (f,), rows, (errors,), norm)

    def _asleep(
        self, c: float, pair: KernelPair, found: _Change, awake: np.ndarray, f: np.ndarray, errors: np.ndarray
    ) -> Sums:
        """Return what rows add that were not looked at: those at their bound c(U) - w . V_U, the others nothing."""
        rows, asleep = self.state, found.signs & ~awake
        cost = sum((Fraction(math.fsum(rows.costs[p][asleep[p]])) for p in rows.chunks()), Fraction(0))
        seen = np.where(found.signs & awake, rows.costs, 0.0)
        part, doubt = doubted(seen, f, float(seen @ errors))
        hinge = cost - (Fraction(c) * found.v_square[0] + found.cross[0] - part)
        off = Fraction((c * found.v_square[1] + found.cross[1] + doubt) * SAFE) + abs(hinge - cost) * Fraction(8 * UNIT)
        off += cost * Fraction(2 * UNIT)
        total = sum((Fraction(math.fsum(pair.alpha[p][asleep[p]])) for p in rows.chunks()), Fraction(0))
        reach = total * Fraction(self.eager.kernel.norm) * (1 + Fraction(4 * UNIT))
        return Sums(0, hinge + off, max(Fraction(0), hinge - off), Fraction(0), total, reach, Fraction(0))
