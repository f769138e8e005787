"""The region a rule proves to hold w*: no ball, one ball, or the intersection of two; bounds for any rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.ball import Ball, Span, ball_bounds
from pipeline.maths.intersection import Counts, intersection_bounds


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
        self,
        products: Sequence[np.ndarray],
        norms: np.ndarray,
        lengths: Sequence[np.ndarray],
        costs: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, Counts]:
        """Return lower and upper bounds of z_i . w* from the rows' products with the span's vectors.

        ``lengths`` are the rows' numbers of terms, ball by ball (see ``ball_bounds``). With ``costs`` bounds are for
        verdicts, and it is counted what each of two balls proves (see ``intersection_bounds``).
        """
        if not self.balls:
            return np.full(norms.size, -np.inf), np.full(norms.size, np.inf), []
        if len(self.balls) == 1:
            return *ball_bounds(self.balls[0], products, norms, lengths[0], self.span.unit), []
        one, two = self.balls
        return intersection_bounds(one, two, self.span, products, norms, lengths, costs)
