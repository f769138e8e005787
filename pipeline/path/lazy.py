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
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pipeline.maths.ball import Span
from pipeline.maths.binned import Binned
from pipeline.maths.certificate import Sums, certify, sums_of
from pipeline.maths.certified_pair import CertifiedPair, unit_of
from pipeline.maths.kernel import SumError
from pipeline.maths.rounding import UNIT, dot_error, inner, nearest
from pipeline.passes.kernel_sums import Wanted
from pipeline.path.kernel_certify import LEAST_NORM, KernelCertifier, KernelPair, KernelPoint, Known, Signed, terms_of
from pipeline.path.point import SAFE

WORTH_IT = 0.5  # of the rows: with more of them awake, all are woken, and known from then on


@dataclass(frozen=True)
class _Change:
    """What is known of a pair from the rows of delta and F, which ``core`` marks."""

    signs: np.ndarray
    free: np.ndarray
    core: np.ndarray
    g: Binned
    h: Binned
    v_square: tuple[Fraction, float]
    cross: tuple[Fraction, float]  # w_F . V
    w_square: tuple[Fraction, float]


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
        found = self._change(c, pair, near)
        if found is None:
            return None
        rho, apart = self._apart(pair.alpha, near.at, found)
        rows, awake, blur = self.state, found.core.copy(), self.state.empty()
        f, width = rows.empty(), apart * self.eager.kernel.norm * SAFE
        for part in rows.chunks():
            f[part] = rho * near.at.margins[part]
            blur[part] = width + abs(rho) * near.at.error.of_rows(self.eager.squares[part]) + 4 * UNIT * abs(f[part])
            above = (f[part] - blur[part] >= 1.0) & (pair.alpha[part] == 0.0)
            below = (f[part] + blur[part] <= 1.0) & found.signs[part]
            awake[part] |= ~(above | below) & (rows.costs[part] > 0.0)
        share = float(np.count_nonzero(awake)) / rows.n_rows
        if share > WORTH_IT:
            return None
        self.woken += share
        self._wake(c, near, found, awake, f)
        blur[awake] = 0.0
        return self._point(c, pair, found, awake, f, blur)

    def _change(self, c: float, pair: KernelPair, near: Signed) -> _Change | None:
        """Evaluate the rows that have changed since; None if they are too many."""
        eager, known = self.eager, near.at
        assert known is not None
        signs, free = eager.split(c, pair.alpha)
        change = eager.coefficients(signs, near.signs)
        core = (change != 0.0) | (free != 0.0)
        if np.count_nonzero(core) > WORTH_IT * self.state.n_rows:
            return None
        g, h = eager.begun(near, free)
        self.passes.add([Wanted(change, g), Wanted(free, h)], core)
        some = np.flatnonzero(core)
        before, now = near.g.first[some] + near.g.second[some], g.first[some] + g.second[some]
        delta, inside = change[some], free[some]
        v_total, moved, loose = eager.error(self._costs(signs)), eager.error(np.abs(change)), eager.error(np.abs(free))
        most = _larger(v_total, eager.error(self._costs(near.signs)))
        v_step = _inner(delta, before + now, 2 * most.of_product(moved))
        v_square = known.v_square[0] + v_step[0], (known.v_square[1] + v_step[1]) * SAFE
        cross = _inner(inside, now, v_total.of_product(loose))
        own = _inner(inside, h.first[some] + h.second[some], loose.of_product(loose))
        big = Fraction(c)
        w_square = big * big * v_square[0] + 2 * big * cross[0] + own[0]
        doubt = (c * c * v_square[1] + 2 * c * cross[1] + own[1]) * SAFE
        return _Change(signs, free, core, g, h, v_square, cross, (w_square, doubt))

    def _costs(self, signs: np.ndarray) -> np.ndarray:
        return np.where(signs, self.state.costs, 0.0)

    def _apart(self, alpha: np.ndarray, known: Known, found: _Change) -> tuple[float, float]:
        """Return rho, and a bound of |w - rho w_b|."""
        product = _inner(alpha, known.margins, known.error.of_product(self.eager.error(alpha)))
        base = known.w_square[0] + Fraction(known.w_square[1])
        if base <= 0:
            return 0.0, math.sqrt(nearest(found.w_square[0] + Fraction(found.w_square[1]))) * SAFE
        rho = nearest(product[0] / base)
        exact = Fraction(rho)
        square = found.w_square[0] - 2 * exact * product[0] + exact * exact * base
        square += Fraction(found.w_square[1]) + 2 * abs(exact) * Fraction(product[1])
        return rho, math.sqrt(max(0.0, nearest(square))) * SAFE

    def _wake(self, c: float, near: Signed, found: _Change, awake: np.ndarray, f: np.ndarray) -> None:
        """Write the margins of the rows that are awake."""
        others = awake & ~found.core
        if others.any():
            change = self.eager.coefficients(found.signs, near.signs)
            self.passes.add([Wanted(change, found.g), Wanted(found.free, found.h)], others)
        rows = np.flatnonzero(awake)
        g, h = found.g, found.h
        f[rows] = self.state.labels[rows] * (c * (g.first[rows] + g.second[rows]) + (h.first[rows] + h.second[rows]))

    def _point(
        self, c: float, pair: KernelPair, found: _Change, awake: np.ndarray, f: np.ndarray, blur: np.ndarray
    ) -> KernelPoint:
        eager, rows = self.eager, self.state
        error = eager.error(pair.alpha)
        between = (
            max(Fraction(0), found.w_square[0] - Fraction(found.w_square[1])),
            (found.w_square[0] + Fraction(found.w_square[1])),
        )
        w_norm = max(math.sqrt(max(0.0, nearest(between[1]))) * SAFE, LEAST_NORM)
        sums = self._awake_sums(c, pair.alpha, awake, f, error, w_norm) + self._asleep_sums(c, pair, found, awake, f)
        sums = replace(sums, rows=rows.trained)
        unit = unit_of(between[1] / 2 + Fraction(c) * sums.hinge)
        ww = nearest(between[1] / Fraction(unit) ** 2)
        doubt = nearest(Fraction(found.w_square[1]) / Fraction(unit) ** 2)
        span = Span(((ww,),), (0.0,), unit, 2 * doubt / ww if ww > 0.0 else math.inf)
        reference = CertifiedPair(c, sums, span, (1.0,), (1.0,), certify(c, sums, between, 0.0))
        owner = replace(pair, margins=f, awake=awake)
        return KernelPoint(c, owner, reference, (f,), rows, (error,), eager.squares, eager.kernel.norm, blur)

    def _awake_sums(
        self, c: float, alpha: np.ndarray, awake: np.ndarray, f: np.ndarray, error: SumError, w_norm: float
    ) -> Sums:
        rows, some = self.state, np.flatnonzero(awake)
        terms = terms_of((error,), [w_norm], self.eager.squares[some], self.eager.kernel.norm)
        return sums_of(c, f[some], alpha[some], rows.costs[some], rows.norms[some], terms, w_norm)

    def _asleep_sums(self, c: float, pair: KernelPair, found: _Change, awake: np.ndarray, f: np.ndarray) -> Sums:
        """Return what rows add that were not looked at: those at their bound c(U) - w . V_U, the others nothing."""
        eager, rows = self.eager, self.state
        asleep = found.signs & ~awake
        cost = sum((Fraction(math.fsum(rows.costs[p][asleep[p]])) for p in rows.chunks()), Fraction(0))
        seen = self._costs(found.signs & awake)
        part = _inner(seen, f, eager.error(pair.alpha).of_product(eager.error(seen)))
        whole = Fraction(c) * found.v_square[0] + found.cross[0]
        hinge = cost - (whole - part[0])
        doubt = Fraction((c * found.v_square[1] + found.cross[1] + part[1]) * SAFE) + cost * Fraction(UNIT)
        alpha = np.where(asleep, pair.alpha, 0.0)
        total = sum((Fraction(math.fsum(alpha[p])) for p in rows.chunks()), Fraction(0))
        reach = total * Fraction(eager.kernel.norm) * (1 + Fraction(4 * UNIT))
        return Sums(0, hinge + doubt, max(Fraction(0), hinge - doubt), Fraction(0), total, reach, Fraction(0))


def _inner(x: np.ndarray, y: np.ndarray, error: float) -> tuple[Fraction, float]:
    """Return x . y, and how far it may be off where y is by what ``error`` counts."""
    size = float(np.linalg.norm(x)) * float(np.linalg.norm(y))
    return inner(x, y, size), (error + (dot_error(x.size) + 2 * UNIT) * size) * SAFE


def _larger(one: SumError, other: SumError) -> SumError:
    return replace(one, total=max(one.total, other.total), reach=max(one.reach, other.reach))
