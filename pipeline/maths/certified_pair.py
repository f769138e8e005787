"""A pair (w, alpha) with its certificate, as far as rules need it: inner products and sums, no vector.

It is what a step of the path leaves behind and what the next one refers to (the paper's reference at C_ref): any w and
any feasible alpha, however far from the optimum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.ball import Combination, Span, drift_of_sum
from pipeline.maths.certificate import Certificate, Sums, certify, hinge_by_gap
from pipeline.maths.rounding import dot_error, inner, nearest, root, square, square_between


@dataclass(frozen=True)
class CertifiedPair:
    """(w, alpha), feasible at C = ``c``.

    ``w`` and ``w_alpha`` are combinations of the span's vectors. Where the solver keeps w = w_alpha there is a single
    vector and both are (1,). Where ``signs_cost`` = sum c_i s_i is known, the span's last vector is the signs' one,
    v = C sum c_i s_i z_i for some s in [0, 1]: see ``rules.bt2``.
    """

    c: float
    sums: Sums
    span: Span
    w: Combination
    w_alpha: Combination
    certificate: Certificate
    signs_cost: float | None = None

    @cached_property
    def energies(self) -> tuple[float, float]:
        """C xi (an upper bound) and sum alpha, in the span's units."""
        return self.energy(Fraction(self.c) * self.sums.hinge), self.energy(self.sums.alpha)

    def energy(self, q: Fraction) -> float:
        """Return a square of a length in units."""
        return nearest(q / Fraction(self.span.unit) ** 2)

    def with_signs(self, v: np.ndarray, others: Sequence[np.ndarray], drift: float, cost: float) -> CertifiedPair:
        """Return the pair with the signs' vector v in its span, after ``others``; ``drift`` bounds its rounding.

        ``cost`` is sum c_i s_i.
        """
        span = self.span.with_vector(v, others, drift)
        return replace(self, span=span, w=(*self.w, 0.0), w_alpha=(*self.w_alpha, 0.0), signs_cost=cost)


def unit_of(energy: Fraction) -> float:
    """Return the power of two to measure lengths in, near the root of a primal value."""
    return 2.0 ** ((energy.numerator.bit_length() - energy.denominator.bit_length()) // 2) if energy > 0 else 1.0


def certified_pair(
    c: float,
    sums: Sums,
    w: np.ndarray,
    w_alpha: np.ndarray | None = None,
    drift: float | None = None,
    asleep: bool = False,
    own: Fraction | None = None,
) -> CertifiedPair:
    """Make a pair from its vectors; w_alpha None means that w is sum alpha_i z_i as computed.

    ``drift`` bounds what rounding has done to w_alpha; the default is that of one sum over all rows. Where rows were
    ``asleep`` both values follow from the gap's sum, and from the dual value's definition. ``own`` is ``square(w)``, if
    that is known.
    """
    own = square(w) if own is None else own
    between = square_between(w, own)
    drift = drift_of_sum(nearest(sums.reach), sums.rows) if drift is None else drift
    dual_square = None
    if asleep:
        sums, dual_square = _from_the_dual(c, sums, w, w_alpha, drift, own)
    unit = unit_of(own / 2 + Fraction(c) * sums.hinge)
    span = Span(unit=unit).with_vector(w, [], drift if w_alpha is None else 0.0, own)
    if w_alpha is None:
        return CertifiedPair(c, sums, span, (1.0,), (1.0,), certify(c, sums, between, drift, dual_square))
    span = span.with_vector(w_alpha, [w], drift)
    found = certify(c, sums, between, drift + root(square(w - w_alpha)) * (1 + 1e-12), dual_square)
    return CertifiedPair(c, sums, span, (1.0, 0.0), (0.0, 1.0), found)


def _from_the_dual(
    c: float, sums: Sums, w: np.ndarray, w_alpha: np.ndarray | None, drift: float, own: Fraction
) -> tuple[Sums, Fraction]:
    """Return the sums with a hinge from the gap's identity, and an upper bound of |sum alpha_i z_i|^2."""
    w_square = square_between(w, own)[1]
    dual_square = w_square if w_alpha is None else square_between(w_alpha)[1]
    sizes = [root(each) * (1 + 1e-12) for each in (w_square, dual_square)]
    error = sizes[0] * (drift + dot_error(w.size) * sizes[1]) * (1 + 1e-12)
    more = Fraction(drift * (2 * sizes[1] + drift) * (1 + 1e-12))
    product = own if w_alpha is None else inner(w, w_alpha, sizes[0] * sizes[1])
    return hinge_by_gap(c, sums, product, error), dual_square + more
