"""The bet on which rows will move: what is expected, what is frozen, and how the bet learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.maths.working_set import (
    FIRST_BAND,
    FURTHEST,
    LEAST_THETA,
    MOST_THETA,
    Outlook,
    classify,
    expect,
    gap_outside,
    surprise,
)


class TestOutlook:
    def test_band(self):
        assert Outlook().band(2.0) == FIRST_BAND * 2.0
        assert Outlook(theta=3.0, error=0.1).band(2.0) == pytest.approx(0.3)
        assert Outlook(theta=3.0, error=10.0).band(2.0) == 2.0, "beyond the radius there is proof"

    def test_stretch_is_the_ratio_of_the_steps_in_log_c(self):
        assert Outlook().stretch(1.0, 2.0) == 0.0
        assert Outlook(c_before=1.0).stretch(2.0, 4.0) == pytest.approx(1.0)
        assert Outlook(c_before=1.0).stretch(4.0, 8.0) == pytest.approx(0.5)
        assert Outlook(c_before=1.0).stretch(1.01, 100.0) == FURTHEST
        assert Outlook(c_before=1.0).stretch(1.0, 2.0) == 0.0
        assert Outlook(c_before=1.0).stretch(2.0, 1.5) == 0.0, "a step back is not foreseen"

    @given(shares=st.lists(st.floats(0, 10), max_size=60))
    def test_theta_learns_within_limits(self, shares):
        outlook = Outlook(error=0.1, c_before=1.0)
        for share in shares:
            after = outlook.after_pass(share)
            assert LEAST_THETA <= after.theta <= MOST_THETA
            assert (after.error, after.c_before) == (0.1, 1.0)
            if share > 0.35:
                assert after.theta > outlook.theta or after.theta == MOST_THETA
            elif share < 0.15:
                assert after.theta < outlook.theta or after.theta == LEAST_THETA
            else:
                assert after.theta == outlook.theta
            outlook = after


def test_expect_goes_on_where_the_last_two_points_lead():
    f, before, expected = np.array([1.0, 2.0]), np.array([0.5, 3.0]), np.empty(2)
    expect(f, f, before, 0.5, expected)
    np.testing.assert_array_equal(expected, [1.25, 1.5])
    expect(f, f, np.full(2, np.nan), 0.0, expected)
    np.testing.assert_array_equal(expected, f)


def test_surprise_is_measured_near_the_margin():
    f, expected = np.array([1.5, 0.5, 3.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0, 9.0, 9.0])
    norms, u = np.array([1.0, 0.5, 1.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    assert surprise(f, expected, norms, u) == (0.25 + 1.0, 2)


@given(
    seed=st.integers(0, 2**32),
    band=st.sampled_from([0.0, 0.1, 1.0]),
    proving=st.booleans(),
    betting=st.booleans(),
)
def test_classify_row_by_row(seed, band, proving, betting):
    """Frozen are exactly the rows left out of training and those proven or bet to stay where their alpha is."""
    rng = np.random.default_rng(seed)
    n = 80
    centre, widths, norms = rng.uniform(0, 2, n), rng.uniform(0, 1, n), rng.uniform(0, 2, n)
    lower, upper = centre - widths, centre + widths
    u = rng.choice([0.0, 1.0, 2.0], n)
    alpha = u * rng.choice([0.0, 0.5, 1.0], n)
    verdicts, chosen = np.empty(n, np.int8), np.empty(n, np.bool_)
    box = 0.5, 2 * u
    counts = classify((lower, upper), centre, (band, norms), alpha, box, (proving, betting), verdicts, chosen)
    assert counts == tuple(np.count_nonzero((verdicts == side) & (u > 0)) for side in (ZERO, UPPER))
    for i in range(n):
        proven = ZERO if lower[i] > 1 else UPPER if upper[i] < 1 else KEEP
        bet = ZERO if centre[i] - band * norms[i] > 1 else UPPER if centre[i] + band * norms[i] < 1 else KEEP
        if u[i] == 0:
            assert (verdicts[i], chosen[i]) == (ZERO, False)
            continue
        assert verdicts[i] == (proven if proving else KEEP)
        believed = verdicts[i] if verdicts[i] != KEEP or not betting else bet
        home = {ZERO: 0.0, UPPER: u[i], KEEP: math.nan}[believed]
        assert chosen[i] == (alpha[i] != home)


def test_bounds_that_are_not_numbers_decide_nothing():
    verdicts, chosen, nan = np.empty(1, np.int8), np.empty(1, np.bool_), np.array([np.nan])
    one = np.ones(1)
    classify((nan, nan), nan, (0.1, one), one, (1.0, one), (True, True), verdicts, chosen)
    assert (verdicts[0], chosen[0]) == (KEEP, True)


@given(seed=st.integers(0, 2**32))
def test_the_gap_is_that_of_rows_inside_and_outside(seed):
    """At w = w_alpha the gap is a sum of one term a row."""
    rng = np.random.default_rng(seed)
    z, u = rng.standard_normal((30, 4)), rng.uniform(0, 2, 30)
    alpha = u * rng.choice([0.0, 0.3, 1.0], 30)
    w = alpha @ z
    f, chosen = z @ w, rng.random(30) < 0.5
    gap = w @ w / 2 + u @ np.maximum(0, 1 - f) - (alpha.sum() - w @ w / 2)
    (one, *sides), (other, *_) = (gap_outside(f, alpha, 0.5, 2 * u, mask) for mask in (chosen, ~chosen))
    assert sides == [np.count_nonzero((alpha > 0) & (alpha < u)), np.count_nonzero((alpha == u) & (u > 0))]
    parts = one, other
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(gap, rel=1e-12)
