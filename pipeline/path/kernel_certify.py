"""Points of a kernel's space: w = sum alpha_j z_j is known by alpha alone, and by its products with the rows.

With s_i = [alpha_i = u_i] and F the rows inside their box,

    f = Q alpha = C g + h,    g = Q (c s),    h = Q_F alpha_F,

and C g are the products with v = C sum c_i s_i z_i, the vector of bt2 and it. From one point to the next g changes by
the columns of the rows that reached or left their bound, and not at all with C; h is made anew. So a certificate costs
the columns of the free rows and of those, and over a path about one column a row. Sums in bins (``maths.binned``) have
the same bits whichever way they were come by.

The inner products that rules need are sums of the rows' products,

    |w|^2 = sum alpha_i f_i,    w . v = C sum alpha_i g_i,    |v|^2 = C^2 sum c_i s_i g_i,

each to within what rounding has done to kernel values (``maths.kernel``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pipeline.maths.ball import Span
from pipeline.maths.binned import Binned, bins_for
from pipeline.maths.certificate import NO_ROWS, Sums, certify, sums_of
from pipeline.maths.certified_pair import CertifiedPair, unit_of
from pipeline.maths.kernel import Rbf, SumError, steepness
from pipeline.maths.rounding import UNIT, dot_error, inner, nearest
from pipeline.maths.rules import rule_named
from pipeline.passes.kernel_sums import KernelPasses, Wanted
from pipeline.path.point import SAFE, CertifiedPoint
from pipeline.working.state import RowState

LEAST_NORM = 1e-150  # that |w| is bounded by, so that errors which are relative to it are numbers


@dataclass(frozen=True)
class Signed:
    """The rows at their bound, and g = Q (c s), labels of the rows left out."""

    signs: np.ndarray
    g: Binned


@dataclass(frozen=True)
class KernelPair:
    """A feasible alpha of all rows, which is w as well; ``margins`` where they are known; and who found it.

    ``near`` is the g of a point nearby, from which this pair's own is made. alpha is never written after it was made.
    """

    alpha: np.ndarray
    near: Signed | None = None
    margins: np.ndarray | None = None
    solver: str = ""

    def __post_init__(self) -> None:
        alpha = self.alpha.view()
        alpha.flags.writeable = False
        object.__setattr__(self, "alpha", alpha)


@dataclass(frozen=True)
class KernelPoint(CertifiedPoint):
    """A certified pair; ``errors`` bound those of the products with w, and with v where there is one."""

    errors: tuple[SumError, ...]
    squares: np.ndarray
    norm: float

    def terms(self, part: slice) -> np.ndarray:
        """Return of how many terms a dot product is that is as inexact as some rows' products."""
        span = self.reference.span
        sizes = [size * span.unit for size in span.norms]
        return terms_of(self.errors, sizes, self.squares[part], self.norm)


def terms_of(errors: tuple[SumError, ...], sizes: list[float], squares: np.ndarray, norm: float) -> np.ndarray:
    """Return k such that k u |z_i| |v| is at least the error of z_i . v, for every one of some vectors v."""
    most = np.zeros(squares.size)
    for error, size in zip(errors, sizes, strict=True):
        if error.total > 0.0:
            scale = UNIT * norm * size
            np.maximum(most, error.of_rows(squares) / scale if scale > 0.0 else math.inf, out=most)
    return most


class KernelCertifier:
    """Makes points."""

    def __init__(self, passes: KernelPasses, state: RowState, squares: np.ndarray, kernel: Rbf, rule: str) -> None:
        self.passes, self.state, self.squares, self.kernel = passes, state, squares, kernel
        self.with_signs = rule_named(rule).needs_signs
        self.steep = steepness(kernel, int(state.lengths.max(initial=0)))
        self.bins = bins_for(float(state.costs.max(initial=0.0)) * kernel.square, state.n_rows)

    def signed(self, signs: np.ndarray) -> Signed:
        """Return g of some rows, from nothing."""
        coefficients, g = self._coefficients(signs, None), self._nothing()
        self.passes.add([Wanted(coefficients, g)])
        return Signed(signs, g)

    def error(self, alpha: np.ndarray) -> SumError:
        """Return what bounds the errors of sums with these coefficients, all >= 0."""
        total = math.fsum(float(alpha[p].sum()) for p in self.state.chunks())
        reach = math.fsum(float(alpha[p] @ self.squares[p]) for p in self.state.chunks())
        return SumError(self.steep, self.kernel.square, total * SAFE, reach * SAFE)

    def point(self, c: float, pair: KernelPair) -> KernelPoint:
        """Certify a pair at C: the columns of the free rows, and of those that came to their bound or left it."""
        rows, alpha = self.state, pair.alpha
        f, v, ours = self._products(c, pair)
        at_bound = rows.empty()
        for part in rows.chunks():
            at_bound[part] = np.where(ours.signs[part], alpha[part], 0.0)
        errors = (self.error(alpha), self.error(at_bound))
        (ww, wv, vv), doubts = self._inner(alpha, at_bound, f, v, errors)
        between = max(Fraction(0), ww - Fraction(doubts[0])), ww + Fraction(doubts[0])
        w_norm = max(math.sqrt(nearest(between[1])) * SAFE, LEAST_NORM)
        sums = self._sums(c, f, alpha, errors[0], w_norm)
        unit = unit_of(between[1] / 2 + Fraction(c) * sums.hinge)
        found = certify(c, sums, between, 0.0)
        squares = (between[1], max(Fraction(0), vv) + Fraction(doubts[2]))
        span = _span(squares, wv, doubts, unit, self.with_signs)
        w = (1.0, 0.0) if self.with_signs else (1.0,)
        cost = self._cost(ours.signs) if self.with_signs else None
        reference = CertifiedPair(c, sums, span, w, w, found, cost)
        products, used = ((f, v), errors) if self.with_signs else ((f,), errors[:1])
        owner = replace(pair, near=ours, margins=f)
        return KernelPoint(c, owner, reference, products, rows, used, self.squares, self.kernel.norm)

    def _products(self, c: float, pair: KernelPair) -> tuple[np.ndarray, np.ndarray, Signed]:
        """Return f, C g (both with the rows' labels) and g itself."""
        rows, signs = self.state, np.empty(self.state.n_rows, np.bool_)
        free = rows.empty()
        for part in rows.chunks():
            alpha, u = pair.alpha[part], c * rows.costs[part]
            signs[part] = (alpha == u) & (u > 0.0)
            free[part] = np.where(signs[part], 0.0, alpha * rows.labels[part])
        near = pair.near
        if near is not None and np.count_nonzero(signs != near.signs) > np.count_nonzero(signs):
            near = None  # so few rows are at their bound that their columns are fewer than the changes
        g, h = self._nothing(near), Binned(bins_for(self._largest(free), rows.n_rows), rows.empty(), rows.empty())
        change = self._coefficients(signs, None if near is None else near.signs)
        self.passes.add([Wanted(change, g), Wanted(free, h)])
        f, v = rows.empty(), rows.empty()
        for part in rows.chunks():
            at = c * g.values(part)
            f[part] = rows.labels[part] * (at + h.values(part))
            v[part] = rows.labels[part] * at
        return f, v, Signed(signs, g)

    def _nothing(self, near: Signed | None = None) -> Binned:
        """Return bins of g to add to: empty, or a copy of those of a point nearby."""
        first, second = self.state.empty(), self.state.empty()
        if near is not None:
            first[:], second[:] = near.g.first, near.g.second
        return Binned(self.bins, first, second)

    def _coefficients(self, signs: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        """Return y_j c_j for rows that came to their bound, minus that for those that left it."""
        rows, found = self.state, self.state.empty()
        for part in rows.chunks():
            now = signs[part].astype(np.float64)
            change = now if before is None else now - before[part]
            found[part] = change * rows.labels[part] * rows.costs[part]
        return found

    def _largest(self, coefficients: np.ndarray) -> float:
        parts = (float(np.abs(coefficients[p]).max(initial=0.0)) for p in self.state.chunks())
        return max(parts, default=0.0) * self.kernel.square

    def _cost(self, signs: np.ndarray) -> float:
        parts = (math.fsum(self.state.costs[p][signs[p]]) for p in self.state.chunks())
        return math.fsum(parts)

    def _inner(
        self, alpha: np.ndarray, at_bound: np.ndarray, f: np.ndarray, v: np.ndarray, errors: tuple[SumError, SumError]
    ) -> tuple[tuple[Fraction, Fraction, Fraction], tuple[float, float, float]]:
        """Return |w|^2, w . v, |v|^2 and how far each may be off."""
        pairs = ((alpha, f, 0, 0), (alpha, v, 0, 1), (at_bound, v, 1, 1))
        found, doubts = [], []
        for x, y, left, right in pairs:
            size = float(np.linalg.norm(x)) * float(np.linalg.norm(y))
            found.append(inner(x, y, size))
            doubts.append((errors[right].of_product(errors[left]) + dot_error(x.size) * size) * SAFE)
        return (found[0], found[1], found[2]), (doubts[0], doubts[1], doubts[2])

    def _sums(self, c: float, f: np.ndarray, alpha: np.ndarray, error: SumError, w_norm: float) -> Sums:
        rows, sums = self.state, NO_ROWS
        for part in rows.chunks():
            terms = terms_of((error,), [w_norm], self.squares[part], self.kernel.norm)
            about = alpha[part], rows.costs[part], rows.norms[part], terms
            sums += sums_of(c, f[part], *about, w_norm)
        return replace(sums, rows=rows.trained)


def _span(
    squares: tuple[Fraction, Fraction], cross: Fraction, doubts: tuple[float, ...], unit: float, with_signs: bool
) -> Span:
    """Return the span of w, or of w and v, in units; squares come as upper bounds."""
    energy = Fraction(unit) ** 2
    ww, wv, vv = (nearest(x / energy) for x in (squares[0], cross, squares[1]))
    sizes = math.sqrt(ww), math.sqrt(vv)
    shares = [_share(doubts[0], energy, ww)]
    if not with_signs:
        return Span(((ww,),), (0.0,), unit, 2 * shares[0])
    shares += [_share(doubts[1], energy, sizes[0] * sizes[1]), _share(doubts[2], energy, vv)]
    return Span(((ww, wv), (wv, vv)), (0.0, 0.0), unit, 2 * max(shares))


def _share(doubt: float, energy: Fraction, size: float) -> float:
    """Return a doubt as a share of a product of norms; nothing is known of vectors of no length."""
    absolute = nearest(Fraction(doubt) / energy)
    if absolute == 0.0:
        return 0.0
    return absolute / size * SAFE if size > 0.0 else math.inf
