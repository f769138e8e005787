"""Screening rules: which pair (w, alpha) at C makes the ball, given a reference (w, alpha) at C_ref <= C.

With rho = C/C_ref (Ogawa et al. 2014; passes over the data beyond the one that certified the reference):

    gap   (w, alpha) at C_ref = C itself: the dynamic ball, radius^2 = gap when w = w_alpha            0 passes
    bt1   (w, rho alpha): the paper's ball test 1, which is also the DVI test                          0 passes
    bt2   (w, u_i s_i) with s_i = [m1 . z_i < 1]: ball test 2, s-hat from the centre m1 of bt1
          its vector C_ref sum c_i s_i z_i is summed in the certifying pass (rho may be a guess: any   1 pass over
          feasible s is safe); the products z_i . v of undecided rows need the pass counted here       undecided rows
    it    the intersection of the balls of bt1 and bt2                                                 the same pass

Every rule is O(nonzeros): the products, and a few operations a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from pipeline.maths.ball import Ball, Combination, Span, drift_of_sum, pair_ball
from pipeline.maths.certificate import Certificate, Sums, certify
from pipeline.maths.rounding import nearest, root, square


@dataclass(frozen=True)
class Reference:
    """A pair (w, alpha), feasible at C = ``c``, as far as rules need it: inner products and sums, no vector.

    ``w`` and ``w_alpha`` are combinations of the span's vectors. Where the solver keeps w = w_alpha there is a single
    vector and both are (1,).
    """

    c: float
    sums: Sums
    span: Span
    w: Combination
    w_alpha: Combination
    certificate: Certificate

    @cached_property
    def energies(self) -> tuple[float, float]:
        """C xi (an upper bound) and sum alpha, in the span's units."""
        return self.energy(Fraction(self.c) * self.sums.hinge), self.energy(self.sums.alpha)

    def energy(self, q: Fraction) -> float:
        """Return a square of a length in units."""
        return nearest(q / Fraction(self.span.unit) ** 2)

    def with_vector(self, v: np.ndarray, others: Sequence[np.ndarray], drift: float) -> Reference:
        """Return the reference with one more vector in its span, after ``others``; ``drift`` bounds its rounding."""
        span = self.span.with_vector(v, others, drift)
        return replace(self, span=span, w=(*self.w, 0.0), w_alpha=(*self.w_alpha, 0.0))


def reference(
    c: float, sums: Sums, w: np.ndarray, w_alpha: np.ndarray | None = None, drift: float | None = None
) -> Reference:
    """Make a reference from its vectors; w_alpha None means that w is sum alpha_i z_i as computed.

    ``drift`` bounds what rounding has done to w_alpha; the default is that of one sum over all rows.
    """
    drift = drift_of_sum(nearest(sums.reach), sums.rows) if drift is None else drift
    own = square(w)
    energy = own / 2 + Fraction(c) * sums.hinge
    unit = 2.0 ** ((energy.numerator.bit_length() - energy.denominator.bit_length()) // 2) if energy > 0 else 1.0
    if w_alpha is None:
        found = certify(c, sums, own, w.size, drift)
        return Reference(c, sums, Span.of([w], [drift], unit), (1.0,), (1.0,), found)
    apart = w - w_alpha
    found = certify(c, sums, own, w.size, drift + root(square(apart)) * (1 + 1e-12))
    return Reference(c, sums, Span.of([w, w_alpha], [0.0, drift], unit), (1.0, 0.0), (0.0, 1.0), found)


def bt1(ref: Reference, c: float) -> Ball:
    """Return the ball of (w, rho alpha) at C = ``c``.

    With an exact reference m = (C + C_ref)/(2 C_ref) w_ref and r = (C - C_ref)/(2 C_ref) |w_ref|. At C = C_ref it is
    the gap ball.
    """
    rho = c / ref.c
    scaled = tuple(rho * a for a in ref.w_alpha)
    loss, alpha_sum = ref.energies
    return pair_ball(ref.span, ref.w, scaled, rho * loss, rho * alpha_sum)


def gap_ball(ref: Reference) -> Ball:
    """Return the ball of (w, alpha) at the reference's own C; with w = w_alpha it has m = w and r^2 = P - D."""
    return bt1(ref, ref.c)


def signs(first: np.ndarray) -> np.ndarray:
    """Return the paper's s-hat: s_i = 1 where m1 . z_i < 1, else 0; ``first`` are bt1's centre products m1 . z_i."""
    return (first < 1.0).astype(np.float64)


def bt2(ref: Reference, c: float, cost_of_signs: float) -> Ball:
    """Return the ball of (w, u_i s_i) at C = ``c``: the last vector of the span is C_ref sum c_i s_i z_i.

    ``cost_of_signs`` is sum c_i s_i. Any s in [0, 1] is feasible, whatever C it was chosen for.
    """
    rho = c / ref.c
    w_alpha = (*([0.0] * (len(ref.w) - 1)), rho)
    signed = ref.energy(Fraction(c) * Fraction(cost_of_signs))
    return pair_ball(ref.span, ref.w, w_alpha, rho * ref.energies[0], signed)
