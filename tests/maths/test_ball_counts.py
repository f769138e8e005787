"""Counts of what each of two balls proves alone: those of its bounds, row by row, for one vector, two or three."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.maths.ball import Ball, Span, ball_bounds
from pipeline.maths.intersection import intersection_bounds
from pipeline.maths.verdicts import UPPER, ZERO, verdicts


@pytest.mark.parametrize("centre", [(1.2,), (0.7, 0.4), (0.0, 1.1), (0.5, 0.0, 0.4), (0.3, 0.3, 0.3), (0.0,)])
@pytest.mark.parametrize("radius", [0.0, 0.2, 3.0])
def test_they_are_those_of_the_bounds(centre, radius):
    rng = np.random.default_rng(len(centre))
    products = [rng.normal(1.0, 1.0, 500) for _ in centre]
    norms, lengths = np.abs(rng.normal(size=500)), np.full(500, 9, np.int32)
    norms[:3], products[0][5] = 0.0, np.nan
    costs = np.where(np.arange(500) % 7 == 0, 0.0, 2.0)
    span = Span.of(rng.standard_normal((len(centre), 4)), unit=0.5)
    balls = Ball(centre, radius**2, 1e-12, 1e-12, 2.0), Ball(centre[::-1], 0.09, 1e-12, 1e-12, 2.0)
    expected = []
    for ball in balls:
        found = verdicts(*ball_bounds(ball, products, norms, lengths, span.unit))
        expected.append(tuple(int(np.count_nonzero((found == side) & (costs > 0.0))) for side in (ZERO, UPPER)))
    assert intersection_bounds(*balls, span, products, norms, [lengths] * 2, costs)[2] == expected
