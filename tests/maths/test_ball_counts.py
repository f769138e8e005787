"""Counts of what one ball proves: those of its bounds, row by row, for balls of one vector, two or three."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.maths.ball import Ball, ball_bounds, ball_counts
from pipeline.maths.verdicts import UPPER, ZERO, verdicts


@pytest.mark.parametrize("centre", [(1.2,), (0.7, 0.4), (0.0, 1.1), (0.5, 0.0, 0.4), (0.3, 0.3, 0.3), (0.0,)])
@pytest.mark.parametrize("radius", [0.0, 0.2, 3.0])
def test_they_are_those_of_the_bounds(centre, radius):
    rng = np.random.default_rng(len(centre))
    products = [rng.normal(1.0, 1.0, 500) for _ in centre]
    norms, lengths = np.abs(rng.normal(size=500)), np.full(500, 9, np.int32)
    norms[:3], products[0][5] = 0.0, np.nan
    costs = np.where(np.arange(500) % 7 == 0, 0.0, 2.0)
    ball = Ball(centre, radius**2, 1e-12, 1e-12, 2.0)
    found = verdicts(*ball_bounds(ball, products, norms, lengths, 0.5))
    expected = tuple(int(np.count_nonzero((found == side) & (costs > 0.0))) for side in (ZERO, UPPER))
    assert ball_counts(ball, products, norms, lengths, costs, 0.5) == expected
