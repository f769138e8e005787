"""The region a rule proves to hold w*: no ball, one ball, or the intersection of two; bounds for any rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.maths import rules
from pipeline.maths.ball import Ball, Span, ball_bounds
from pipeline.maths.intersection import intersection_bounds
from pipeline.maths.rules import Reference
from pipeline.spec import RULES


@dataclass(frozen=True)
class Region:
    """w* lies in every ball of ``balls``; their centres are combinations of the span's vectors."""

    balls: tuple[Ball, ...]
    span: Span

    @property
    def radius(self) -> float:
        """The first ball's radius, as a length."""
        return self.balls[0].radius * self.span.unit

    def bounds(
        self, products: Sequence[np.ndarray], norms: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds of z_i . w* from the rows' products with the span's vectors."""
        if not self.balls:
            return np.full(norms.size, -np.inf), np.full(norms.size, np.inf)
        if len(self.balls) == 1:
            return ball_bounds(self.balls[0], products, norms, lengths, self.span.unit)
        one, two = self.balls
        return intersection_bounds(one, two, self.span, products, norms, lengths)


def region(ref: Reference, c: float, rule: str, cost_of_signs: float | None = None) -> Region:
    """Return what ``rule`` proves at C = ``c``.

    bt2 and it want the vector C_ref sum c_i s_i z_i as the last one of the reference's span (see
    ``Reference.with_vector``) and sum c_i s_i. gap is the reference's own ball, which exists at its own C only:
    elsewhere it proves nothing.
    """
    if rule == "none" or (rule == "gap" and c != ref.c):
        return Region((), ref.span)
    if rule in ("bt1", "gap"):
        return Region((rules.bt1(ref, c),), ref.span)
    if rule not in RULES:
        raise ValueError(f"unknown rule {rule!r}; there are {', '.join(RULES)}")
    if cost_of_signs is None:
        raise ValueError(f"{rule} needs the sum of c_i s_i")
    two = rules.bt2(ref, c, cost_of_signs)
    if rule == "bt2":
        return Region((two,), ref.span)
    return Region((rules.bt1(ref, c), two), ref.span)
