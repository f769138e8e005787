"""Where a path leads, and where a solver begins: straight on, within the box, never below where it would have begun."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pipeline.working.lead import Lead, towards
from tests import oracle

N = 6
shares = arrays(np.float64, N, elements=st.floats(0, 1))


@given(shares, shares, shares, st.floats(1.01, 100), st.floats(1.01, 100))
def test_a_lead_is_in_its_box_and_bounds_stay_bounds(before, ref, costs, first, second):
    lead = Lead(first, ref * first * costs, 1.0, before * costs)
    ahead = lead.at(first * second, costs, lead.ref, lead.before)
    u = first * second * costs
    assert ((ahead >= 0) & (ahead <= u)).all()
    at_bound = lead.ref >= first * costs
    np.testing.assert_array_equal(ahead[at_bound], u[at_bound])


def test_a_lead_goes_straight_on_to_the_optimum_as_long_as_no_row_changes_sides():
    z = np.random.default_rng(3).normal(size=(12, 3)) + 0.5
    at = [oracle.solve(z, c).alpha.astype(float) for c in (1.0, 1.001, 1.003)]
    sides = [(np.isclose(alpha, 0.0), np.isclose(alpha, c)) for alpha, c in zip(at, (1.0, 1.001, 1.003), strict=True)]
    assert all(np.array_equal(sides[0], side) for side in sides)
    assert ((at[2] > 0.01) & (at[2] < 1.0)).any()
    lead = Lead(1.001, at[1], 1.0, at[0])
    np.testing.assert_allclose(lead.at(1.003, np.ones(12), at[1], at[0]), at[2], atol=1e-9)


@given(shares, shares, arrays(np.float64, (N, 3), elements=st.floats(-3, 3)))
def test_the_point_between_is_at_least_as_high_as_both_ends(start, lead, z):
    def dual(alpha):
        w = z.T @ alpha
        return alpha.sum() - w @ w / 2

    change = lead - start
    move = z.T @ change
    found = towards(start, lead, change.sum() - (z.T @ start) @ move, move @ move)
    assert dual(found) >= max(dual(start), dual(lead)) - 1e-9
    assert (found >= -1e-15).all()
    assert (found <= 1 + 1e-15).all()
