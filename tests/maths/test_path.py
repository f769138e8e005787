"""The start of the path, how far a solution reaches along it, models between steps, and its end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.maths.eps_grid import Reach, check_grid, has_ended, log_grid, next_c
from pipeline.maths.path_start import c_min
from tests.in_memory.problem import doubt_of
from tests.maths.problems import make_problem, problems, worsened
from tests.oracle import solve


def reach_of(problem, c, alpha):
    w = problem.z.T @ alpha
    hinge = problem.costs @ np.maximum(0.0, 1.0 - problem.z @ w)
    return Reach(c, float(w @ w), float(alpha.sum()), float(hinge)), w


def certified_gap(problem, c, w, alpha):
    """An independent certificate of (w, alpha) at c, which must be feasible."""
    assert np.all(alpha >= 0)
    assert np.all(alpha <= c * problem.costs * (1 + 1e-12))
    w_alpha = problem.z.T @ alpha
    primal = w @ w / 2 + c * problem.costs @ np.maximum(0.0, 1.0 - problem.z @ w)
    return primal, alpha.sum() - w_alpha @ w_alpha / 2


@given(problem=problems(largest=(60, 12)))
def test_up_to_c_min_every_row_is_at_its_bound(problem):
    assume(math.isfinite(problem.c_min))
    s = problem.z.T @ problem.costs
    for c in (0.5 * problem.c_min, problem.c_min):
        w, alpha = c * s, c * problem.costs
        primal, dual = certified_gap(problem, c, w, alpha)
        assert primal - dual <= 1e-12 * primal
    beyond = 1.01 * problem.c_min
    w, alpha = beyond * s, beyond * problem.costs
    primal, dual = certified_gap(problem, beyond, w, alpha)
    assert primal - dual > 1e-12 * primal


def test_a_repeated_row_is_a_cost_of_two_for_c_min():
    z = np.random.default_rng(0).standard_normal((10, 3))
    twice = np.vstack([z, z])
    assert c_min(twice @ twice.sum(axis=0)) == pytest.approx(c_min(z @ (z.T @ np.full(10, 2.0))))


def test_rows_that_sum_to_zero_never_leave_the_start():
    z = np.array([[1.0, 2.0], [-1.0, -2.0], [3.0, 0.0], [-3.0, 0.0]])
    assert c_min(z @ z.sum(axis=0)) == math.inf
    optimum = solve(z, 100.0)
    np.testing.assert_allclose(optimum.w.astype(float), 0, atol=1e-9)


def test_rows_that_sum_to_zero_but_for_rounding():
    z = np.random.default_rng(0).standard_normal((31, 3))
    z = np.vstack([z, -z[::-1]]) / 3
    costs = np.ones(len(z))
    s = z.T @ costs
    assert 0 < np.abs(s).max() < 1e-14
    assert c_min(z @ s, doubt_of(costs, np.linalg.norm(z, axis=1))) == math.inf


@given(
    problem=problems(largest=(60, 12)),
    decades=st.floats(0, 5),
    eps=st.sampled_from([1e-4, 1e-3, 1e-2, 0.1]),
    share=st.sampled_from([0.0, 0.1, 0.5, 0.9]),
)
def test_the_next_c_is_the_last_one_within_eps(problem, decades, eps, share):
    assume(math.isfinite(problem.c_min))
    c0 = problem.c_min * 10**decades
    alpha = worsened(problem, c0, problem.solve(c0), max(share * eps, 1e-12), 1)
    reach, w = reach_of(problem, c0, alpha)
    c = next_c(reach, eps, math.inf)
    if c is None:
        assert reach.gap > 0.4 * eps * reach.dual or reach.gap < 0
        return
    assert c > c0
    if math.isinf(c):
        assert has_ended(reach, eps)
        c = 1e6 * c0
    model = reach.model_at(c)
    primal, dual = certified_gap(problem, c, w, model.alpha_scale * alpha)
    assert model.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert model.certificate.dual == pytest.approx(dual, rel=1e-7, abs=1e-9 * primal)
    assert model.certificate.gap <= eps * model.certificate.dual * (1 + 1e-6) + 1e-12 * primal
    if not has_ended(reach, eps):
        later = reach.model_at(1.001 * c).certificate
        assert later.gap > eps * later.dual * (1 - 1e-9)


@given(problem=problems(largest=(40, 8)), decades=st.floats(0, 4), between=st.floats(0.0, 1.0))
def test_any_c_between_two_steps_is_answered_within_eps(problem, decades, between):
    assume(math.isfinite(problem.c_min))
    eps, c0 = 1e-2, problem.c_min * 10**decades
    alpha = np.clip(problem.solve(c0).alpha.astype(float), 0, c0 * problem.costs)
    reach, w = reach_of(problem, c0, alpha)
    c1 = next_c(reach, eps, 10 * c0)
    assume(c1 is not None)
    c = c0 * (c1 / c0) ** between
    model = reach.model_at(c)
    primal, dual = certified_gap(problem, c, w, model.alpha_scale * alpha)
    assert primal - dual <= eps * dual + 1e-10 * primal
    assert primal - float(problem.solve(c).dual) <= model.certificate.gap + 1e-9 * primal


def test_a_reference_that_is_too_rough_must_be_solved_tighter():
    problem = make_problem(1, 50, 5, "plain", 0.0)
    c = 20 * problem.c_min
    rough, _ = reach_of(problem, c, worsened(problem, c, problem.solve(c), 0.05, 0))
    assert next_c(rough, 1e-3, 1e4) is None


def test_the_path_ends_when_no_row_is_inside_the_margin():
    problem = make_problem(4, 40, 10, "one class", 0.0)
    c = 1e4 * problem.c_min
    optimum = problem.solve(c)
    alpha = np.clip(optimum.alpha.astype(float), 0, c) * (1 + 1e-9)
    assert np.all(alpha < c)
    reach, w = reach_of(problem, c, alpha)
    assert has_ended(reach, 1e-3)
    assert next_c(reach, 1e-3, 1e9) == 1e9
    certificate = reach.model_at(1e9).certificate
    assert certificate.relative_gap < 1e-6
    np.testing.assert_allclose(w, problem.solve(1e3 * c).w.astype(float), rtol=1e-5)


def test_no_w_at_all():
    """Rows of norm zero only: every alpha is at its bound, the loss is constant, and one answer serves every C."""
    reach = Reach(c=1.0, square=0.0, alpha=5.0, hinge=5.0)
    assert next_c(reach, 1e-3, 1e4) == 1e4
    assert reach.model_at(50.0).certificate.gap == pytest.approx(0.0)


def test_grids():
    assert check_grid([3.0, 1.0, 3.0]) == [1.0, 3.0]
    for bad in ([0.0], [-1.0], [math.nan], [math.inf]):
        with pytest.raises(ValueError, match="positive finite"):
            check_grid(bad)
    np.testing.assert_allclose(log_grid(1.0, 1000.0, 4), [1, 10, 100, 1000])
    with pytest.raises(ValueError, match="two points"):
        log_grid(1.0, 2.0, 1)
