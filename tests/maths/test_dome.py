"""The dome test in its corrected form: the true maximum over the dome, and where the seed's form goes wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.in_memory.dome import dome_bounds
from tests.maths.problems import make_problem


def highest_over_dome(w_a, b, z):
    """Maximise z . w over |w|^2 <= b, w_a . w >= |w_a|^2 on the plane of w_a and z, by a fine search."""
    along = w_a / np.linalg.norm(w_a)
    across = z - (z @ along) * along
    if np.linalg.norm(across) > 0:
        across /= np.linalg.norm(across)
    angles = np.linspace(-math.acos(min(1.0, np.linalg.norm(w_a) / math.sqrt(b))), 0, 20001)
    arc = math.sqrt(b) * (np.cos(angles)[:, None] * along + np.sin(-angles)[:, None] * across)
    return float(np.max(arc @ z))


@given(seed=st.integers(0, 2**32), d=st.integers(2, 8), growth=st.floats(1.0, 9.0))
def test_it_is_the_maximum_over_the_dome(seed, d, growth):
    rng = np.random.default_rng(seed)
    w_a, z = rng.standard_normal(d), rng.standard_normal((20, d))
    a = float(w_a @ w_a)
    lower, upper = dome_bounds(z @ w_a, np.linalg.norm(z, axis=1), a, growth * a)
    for i in range(20):
        scale = math.sqrt(growth * a) * np.linalg.norm(z[i])
        assert upper[i] == pytest.approx(highest_over_dome(w_a, growth * a, z[i]), abs=1e-6 * scale)
        assert lower[i] == pytest.approx(-highest_over_dome(w_a, growth * a, -z[i]), abs=1e-6 * scale)


def test_the_seed_s_mixed_normalisation_cuts_off_part_of_the_dome():
    """With gamma_b = |w_b|^2/2 in the ball and gamma_a = |w_a|^2 in the half-space the value is too low."""
    w_a, b = np.array([1.0, 0.0]), 4.0
    z = np.array([[0.0, 1.0]])
    f, norms = z @ w_a, np.array([1.0])
    truth = highest_over_dome(w_a, b, z[0])
    assert dome_bounds(f, norms, 1.0, b)[1][0] == pytest.approx(truth, rel=1e-6)
    mixed = dome_bounds(f, norms, 1.0, b / 2)[1][0]
    assert mixed < truth - 0.5


@pytest.mark.parametrize("kind", ["plain", "shifted"])
def test_it_holds_along_the_path(kind):
    problem = make_problem(3, 80, 6, kind, 0.0)
    c_a, c_b = 20 * problem.c_min, 40 * problem.c_min
    first, last = problem.solve(c_a), problem.solve(c_b)
    lower, upper = dome_bounds(
        first.margins.astype(float), np.linalg.norm(problem.z, axis=1), float(first.w @ first.w), float(last.w @ last.w)
    )
    for c in np.linspace(c_a, c_b, 5):
        f = problem.solve(c).margins.astype(float)
        assert np.all(f >= lower - 1e-8)
        assert np.all(f <= upper + 1e-8)


def test_no_reference_at_all_is_a_ball_around_zero():
    lower, upper = dome_bounds(np.zeros(2), np.array([1.0, 3.0]), 0.0, 4.0)
    np.testing.assert_array_equal(upper, [2.0, 6.0])
    np.testing.assert_array_equal(lower, [-2.0, -6.0])
    with pytest.raises(ValueError, match="A <= B"):
        dome_bounds(np.zeros(1), np.ones(1), 2.0, 1.0)
