"""With an exact reference every ball equals the paper's closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipeline.maths.ball import Span, ball_bounds, pair_ball
from pipeline.maths.rules import bt1, bt2, rule_named
from tests.in_memory.problem import dual, hinge_sum, primal
from tests.in_memory.screening import MemoryRows, refer, screen, signs
from tests.maths.problems import make_problem


def exact_pair(c_ref=0.7):
    """Two opposite classes on a line, solved by algebra: z = 2 (n rows) and z = -1 (one row inside the margin).

    w = 1/2 as long as the free rows can balance the one at its bound: sum of free alphas = (1/2 + c_ref)/2 <= n c_ref.
    """
    z = np.array([[2.0], [2.0], [2.0], [-1.0]])
    free = (0.5 + c_ref) / 2 / 3
    return MemoryRows.of(z), np.array([0.5]), np.array([free, free, free, c_ref])


@pytest.mark.parametrize("ratio", [1.0, 1.0001, 1.1, 2.0, 10.0])
def test_bt1_is_the_paper_s_ball_and_the_dvi_test(ratio):
    c_ref = 0.7
    rows, w, alpha = exact_pair(c_ref)
    pair = refer(rows, c_ref, w, alpha, w_alpha=w)
    assert pair.reference.certificate.gap == pytest.approx(0, abs=1e-14)
    c = ratio * c_ref
    ball = bt1.ball(pair.reference, c)
    assert ball.centre[0] == pytest.approx((c + c_ref) / (2 * c_ref), rel=1e-12)
    assert math.sqrt(max(0, ball.radius_squared)) == pytest.approx((c - c_ref) / (2 * c_ref) * 0.5, abs=3e-7, rel=1e-12)
    assert ball.radius_squared == pytest.approx(((c - c_ref) / (2 * c_ref) * 0.5) ** 2, abs=1e-12)
    found = screen(rows, pair, c, "bt1")
    dvi = (c + c_ref) / (2 * c_ref) * (rows.z @ w) - (c - c_ref) / (2 * c_ref) * 0.5 * rows.norms
    np.testing.assert_allclose(found.lower, dvi, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_bt2_is_the_paper_s_ball(seed):
    """The paper: m = (w_ref + C sum s_i z_i)/2 and r^2 = |m|^2 - C (sum s_i - xi(w_ref))."""
    problem = make_problem(seed, 60, 6, "shifted", 0.0)
    c_ref, c = 40 * problem.c_min, 60 * problem.c_min
    optimum = problem.solve(c_ref)
    w, alpha = optimum.w.astype(float), np.clip(optimum.alpha.astype(float), 0, c_ref)
    rows = MemoryRows.of(problem.z, problem.costs)
    pair = refer(rows, c_ref, w, alpha, w_alpha=w)
    s = (1 - (c + c_ref) / (2 * c_ref) * (problem.z @ w) > 0).astype(float)
    v = c_ref * (problem.z.T @ s)
    ref = pair.reference.with_signs(v, [w], 0.0, float(s.sum()))
    ball = bt2.ball(ref, c)
    m = (w + c / c_ref * v) / 2
    np.testing.assert_allclose(ball.centre[0] * w + ball.centre[1] * v, m, rtol=1e-12)
    radius_squared = m @ m - c * (s.sum() - np.maximum(0, 1 - problem.z @ w).sum())
    assert ball.radius_squared * ref.span.unit**2 == pytest.approx(radius_squared, rel=1e-12)
    np.testing.assert_array_equal(signs((c + c_ref) / (2 * c_ref) * (problem.z @ w)), s)


@pytest.mark.parametrize("seed", range(5))
def test_the_ball_is_p_minus_d_minus_a_quarter_of_the_distance(seed):
    """r^2 = |m|^2 + C xi - sum alpha is P - D - |w - w_alpha|^2/4, for any pair."""
    rng = np.random.default_rng(seed)
    z, costs, c = rng.standard_normal((30, 5)), rng.uniform(0.1, 3, 30), 0.8
    w, alpha = rng.standard_normal(5), c * costs * rng.random(30)
    w_alpha = z.T @ alpha
    f = z @ w
    p, d = primal(w, f, costs, c), dual(alpha, w_alpha)
    span = Span.of([w, w_alpha])
    ball = pair_ball(span, (1.0, 0.0), (0.0, 1.0), c * hinge_sum(f, costs), alpha.sum())
    distance = w - w_alpha
    assert ball.radius_squared == pytest.approx(p - d - distance @ distance / 4, rel=1e-12)
    assert ball.radius >= math.sqrt(ball.radius_squared)
    lower, upper = ball_bounds(ball, (f, z @ w_alpha), np.linalg.norm(z, axis=1), np.full(30, 5))
    np.testing.assert_allclose((lower + upper) / 2, z @ (w + w_alpha) / 2, rtol=1e-9)


def test_the_gap_ball_has_the_square_root_of_the_gap_as_radius():
    problem = make_problem(2, 50, 5, "plain", 1.0)
    c = 10 * problem.c_min
    alpha = 0.5 * c * problem.costs
    rows = MemoryRows.of(problem.z, problem.costs)
    w = problem.z.T @ alpha
    pair = refer(rows, c, w, alpha, w_alpha=w)
    (ball,) = rule_named("gap").region(pair.reference, c).balls
    assert ball.centre == (1.0,)
    unit = pair.reference.span.unit
    assert ball.radius_squared * unit**2 == pytest.approx(pair.reference.certificate.gap, rel=1e-12)


def test_an_infeasible_alpha_is_refused():
    rows = MemoryRows.of(np.eye(3))
    with pytest.raises(ValueError, match=r"alpha\[1\] = 1.5 is outside \[0, 1\]"):
        refer(rows, 1.0, np.ones(3), np.array([0.0, 1.5, 0.0]))
    with pytest.raises(ValueError, match="outside"):
        refer(rows, 1.0, np.ones(3), np.array([0.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match="below the reference"):
        screen(rows, refer(rows, 1.0, np.ones(3), np.ones(3)), 0.5, "bt1")
