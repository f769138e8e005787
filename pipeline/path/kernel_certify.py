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
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import SpecError
from pipeline.maths.ball import Combination, Span
from pipeline.maths.binned import bins_for
from pipeline.maths.certificate import Sums, certify, sums_of
from pipeline.maths.certified_pair import CertifiedPair, unit_of
from pipeline.maths.kernel import Rbf, sum_error
from pipeline.maths.rounding import SAFE, UNIT, dot_error, inner, nearest
from pipeline.maths.rules import rule_named
from pipeline.passes.kernel_sums import KernelPasses
from pipeline.path.kernel_sides import Sides
from pipeline.path.point import CertifiedPoint, Seen
from pipeline.working.state import RowState

LEAST_NORM = 1e-150  # that |w| is bounded by, so that errors which are relative to it are numbers
Doubted = tuple[Fraction, float]  # a number, and how far it may be off


@dataclass(frozen=True)
class KnownPoint:
    """All rows' margins at a point with their errors, and |w|^2 and |v|^2 there."""

    c: float
    margins: np.ndarray
    errors: np.ndarray
    w_square: Doubted
    scaled_square: Doubted

    @property
    def v_square(self) -> Doubted:
        """|sum c_i s_i z_i|^2, which is |v|^2/C^2."""
        square, doubt = self.scaled_square
        return square / Fraction(self.c) ** 2, doubt / self.c / self.c * SAFE


@dataclass(frozen=True)
class Signed:
    """The rows at their bound, and g = Q (c s) but for the rows' labels; where it was certified, ``at`` that."""

    signs: np.ndarray
    g: Sides
    at: KnownPoint | None = None


@dataclass(frozen=True)
class KernelPair:
    """A feasible alpha of all rows, which is w as well; ``margins`` where they are known; and who found it.

    ``near`` is the g of a point nearby, from which this pair's own is made. Margins are exact but for rounding, or only
    those of the rows that are ``awake`` are (``lazy``). alpha is never written after it was made.
    """

    alpha: np.ndarray
    near: Signed | None = None
    margins: np.ndarray | None = None
    solver: str = ""
    awake: np.ndarray | None = None

    def __post_init__(self) -> None:
        alpha = self.alpha.view()
        alpha.flags.writeable = False
        object.__setattr__(self, "alpha", alpha)


@dataclass(frozen=True)
class KernelPoint(CertifiedPoint):
    """A certified pair; ``errors`` bound those of the rows' products with w, and with v where there is one."""

    errors: tuple[np.ndarray, ...]
    norm: float

    @property
    def seen(self) -> Seen:
        """What the point knows of every row."""
        span = self.reference.span
        sizes = tuple(size * span.unit for size in span.norms)
        return SeenByColumns(self.products, self.state, self.errors, self.norm, sizes)


@dataclass(frozen=True)
class SeenByColumns(Seen):
    """What a point knows of rows whose products are sums of kernel columns: these are off by ``errors``.

    ``sizes`` are the lengths of the vectors that the products are with, ``norm`` is that of all rows.
    """

    errors: tuple[np.ndarray, ...]
    norm: float
    sizes: tuple[float, ...]

    def terms(self, part: slice, centres: Sequence[Combination]) -> Sequence[np.ndarray]:
        """Return of how many terms a dot product is that is as inexact as some rows' products."""
        found = [terms_of(error[part], self.norm, size) for error, size in zip(self.errors, self.sizes, strict=True)]
        most = np.maximum(*found) if len(found) == 2 else found[0]
        return [most] * len(centres)  # products with w and v are about as inexact


def terms_of(errors: np.ndarray, norm: float, size: float) -> np.ndarray:
    """Return k such that k u |z_i| |v| is the error of z_i . v, for rows of this norm and a vector of this size."""
    scale = UNIT * norm * size
    return errors / scale if scale > 0.0 else np.where(errors > 0.0, math.inf, 0.0)


def doubted(x: np.ndarray, y: np.ndarray, error: float) -> Doubted:
    """Return x . y, and how far it may be off where y being off is worth ``error``."""
    size = float(np.linalg.norm(x)) * float(np.linalg.norm(y))
    return inner(x, y, size), (error + (dot_error(x.size) + 4 * UNIT) * size) * SAFE


def bounds_of(square: Doubted) -> tuple[Fraction, Fraction]:
    """Return bounds of a number that is at least 0."""
    low, high = (square[0] + sign * Fraction(square[1]) for sign in (-1, 1))
    return max(Fraction(0), low), max(Fraction(0), high)


def norm_above(square: Fraction) -> float:
    """Return an upper bound of a norm, given that of its square."""
    return max(math.sqrt(nearest(square)) * SAFE, LEAST_NORM)


class KernelCertifier:
    """Makes points."""

    def __init__(self, passes: KernelPasses, state: RowState, squares: np.ndarray, kernel: Rbf, rule: str) -> None:
        self.passes, self.state, self.squares, self.kernel = passes, state, squares, kernel
        self.with_signs = rule_named(rule).needs_signs
        longest, far = int(state.lengths.max(initial=0)), float(squares.max(initial=0.0))
        self.error = sum_error(kernel, longest, far)
        if not self.error.is_known:
            raise SpecError(
                f"float64 cannot tell distances of rows of length {math.sqrt(far):.3g} at gamma = {kernel.gamma:g}; "
                "scale the features, for example to [-1, 1], or use a smaller gamma"
            )
        self.bins = bins_for(float(state.costs.max(initial=0.0)) * kernel.square, state.n_rows)

    def signed(self, signs: np.ndarray) -> Signed:
        """Return g of some rows, from nothing."""
        g = Sides.empty(self.state, self.bins)
        self.passes.add(g.wanted(self.state, np.where(signs, self.state.costs, 0.0)))
        return Signed(signs, g)

    def margins(self, alpha: np.ndarray) -> np.ndarray:
        """Return the margins at w = sum alpha_j z_j for any alpha >= 0."""
        rows, f = self.state, self.state.empty()
        h = self.begun(None, alpha)[1]
        self.passes.add(h.wanted(rows, alpha))
        for part in rows.chunks():
            f[part] = rows.labels[part] * h.difference(part)
        return f

    def point(self, c: float, pair: KernelPair) -> KernelPoint:
        """Certify a pair at C: the columns of the free rows, and of those that came to their bound or left it."""
        rows, alpha = self.state, pair.alpha
        ours, h = self._products(c, pair)
        at_bound, (f, v, f_error, v_error) = rows.empty(), (rows.empty() for _ in range(4))
        for part in rows.chunks():
            at_bound[part] = np.where(ours.signs[part], alpha[part], 0.0)
        totals = [math.fsum(float(x[p].sum()) for p in rows.chunks()) * SAFE for x in (alpha, at_bound)]
        of_bound = c * ours.g.lost(at_bound)
        lost = of_bound + h.lost(alpha != at_bound)
        for part in rows.chunks():
            y, at, both = rows.labels[part], c * ours.g.difference(part), c * ours.g.total(part)
            f[part], v[part] = y * (at + h.difference(part)), y * at
            f_error[part] = self.error(self.squares[part], both + h.total(part), alpha[part], totals[0], lost)
            v_error[part] = self.error(self.squares[part], both, at_bound[part], totals[1], of_bound)
        ww, wv, vv = (
            doubted(x, y, float(x @ error))
            for x, y, error in ((alpha, f, f_error), (alpha, v, v_error), (at_bound, v, v_error))
        )
        known = KnownPoint(c, f, f_error, ww, vv)
        owner = replace(pair, near=replace(ours, at=known), margins=f, awake=None)
        between = bounds_of(ww)
        sums = self._sums(c, f, alpha, f_error, norm_above(between[1]))
        unit, found = unit_of(between[1] / 2 + Fraction(c) * sums.hinge), certify(c, sums, between, 0.0)
        if not self.with_signs:
            reference = CertifiedPair(c, sums, span_of(unit, ww), (1.0,), (1.0,), found)
            return KernelPoint(c, owner, reference, (f,), rows, (f_error,), self.kernel.norm)
        w, cost = (1.0, 0.0), math.fsum(math.fsum(rows.costs[p][ours.signs[p]]) for p in rows.chunks())
        reference = CertifiedPair(c, sums, span_of(unit, ww, wv, vv), w, w, found, cost)
        return KernelPoint(c, owner, reference, (f, v), rows, (f_error, v_error), self.kernel.norm)

    def _sums(self, c: float, f: np.ndarray, alpha: np.ndarray, errors: np.ndarray, w_norm: float) -> Sums:
        rows, found = self.state, list[Sums]()
        for part in rows.chunks():
            terms = terms_of(errors[part], self.kernel.norm, w_norm)
            found.append(sums_of(c, f[part], alpha[part], rows.costs[part], rows.norms[part], terms, w_norm))
        return replace(sum(found[1:], found[0]), rows=rows.trained)

    def _products(self, c: float, pair: KernelPair) -> tuple[Signed, Sides]:
        """Return g and h of all rows."""
        (signs, free), near = self.split(c, pair.alpha), pair.near
        if near is not None and np.count_nonzero(signs != near.signs) > np.count_nonzero(signs):
            near = None  # so few rows are at their bound that their columns are fewer than the changes
        g, h = self.begun(near, free)
        self.passes.add([*g.wanted(self.state, self.change(signs, near)), *h.wanted(self.state, free)])
        return Signed(signs, g), h

    def split(self, c: float, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows are at their bound, and alpha of those inside their box."""
        rows, signs, free = self.state, np.empty(self.state.n_rows, np.bool_), self.state.empty()
        for part in rows.chunks():
            u = c * rows.costs[part]
            signs[part] = (alpha[part] == u) & (u > 0.0)
            free[part] = np.where(signs[part], 0.0, alpha[part])
        return signs, free

    def begun(self, near: Signed | None, free: np.ndarray) -> tuple[Sides, Sides]:
        """Return sums to add g and h to: those of a point nearby, copied, or empty ones."""
        largest = max((float(free[p].max(initial=0.0)) for p in self.state.chunks()), default=0.0)
        h = Sides.empty(self.state, bins_for(largest * self.kernel.square, self.state.n_rows))
        return Sides.empty(self.state, self.bins) if near is None else near.g.copied(self.state), h

    def change(self, signs: np.ndarray, near: Signed | None) -> np.ndarray:
        """Return c_j for rows that came to their bound, -c_j for those that left it."""
        rows, found = self.state, self.state.empty()
        for part in rows.chunks():
            now = signs[part].astype(np.float64)
            found[part] = (now if near is None else now - near.signs[part]) * rows.costs[part]
        return found


def span_of(unit: float, ww: Doubted, wv: Doubted | None = None, vv: Doubted | None = None) -> Span:
    """Return the span of w, or of w and v, in units; squares become upper bounds."""
    energy = Fraction(unit) ** 2
    squares = [nearest((max(Fraction(0), x[0]) + Fraction(x[1])) / energy) for x in (ww, vv) if x is not None]
    sizes = [math.sqrt(square) for square in squares]
    shares = [_share(ww[1], energy, squares[0])]
    if wv is None or vv is None:
        return Span(((squares[0],),), (0.0,), unit, 2 * shares[0])
    shares += [_share(wv[1], energy, sizes[0] * sizes[1]), _share(vv[1], energy, squares[1])]
    cross = nearest(wv[0] / energy)
    return Span(((squares[0], cross), (cross, squares[1])), (0.0, 0.0), unit, 2 * max(shares))


def _share(doubt: float, energy: Fraction, size: float) -> float:
    """Return a doubt as a share of a product of norms; nothing is known of vectors of no length."""
    absolute = nearest(Fraction(doubt) / energy)
    if absolute == 0.0:
        return 0.0
    return absolute / size * SAFE if size > 0.0 else math.inf
