"""The intersection test: exact over both balls, with every degenerate case, never looser than either ball."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.maths.ball import Ball, Span, ball_bounds, pair_ball
from pipeline.maths.intersection import intersection_bounds


def bounds(m1, r1, m2, r2, z):
    """The function under test on explicit balls."""
    span = Span.of([m1, m2])
    sizes = [float(np.linalg.norm(m)) for m in (m1, m2)]
    one, two = Ball((1.0, 0.0), r1 * r1, 0.0, 0.0, sizes[0]), Ball((0.0, 1.0), r2 * r2, 0.0, 0.0, sizes[1])
    products, norms, lengths = (z @ m1, z @ m2), np.linalg.norm(z, axis=1), np.full(len(z), z.shape[1])
    found = intersection_bounds(one, two, span, products, norms, [lengths, lengths])[:2]
    return found, [ball_bounds(ball, products, norms, lengths) for ball in (one, two)]


def three_cases(m1, r1, m2, r2, z):
    """The paper's theorem, case by case, for balls that properly cross."""
    phi = m1 - m2
    p = math.sqrt(phi @ phi)
    zeta = (p * p + r2 * r2 - r1 * r1) / (2 * p)
    psi, kappa = m2 + zeta * phi / p, math.sqrt(r2 * r2 - zeta * zeta)
    lower, upper = [], []
    for row in z:
        norm = math.sqrt(row @ row)
        t = row @ phi / (p * norm)
        width = kappa * math.sqrt(max(0.0, norm * norm - (row @ phi) ** 2 / p**2))
        for sign, out in ((-1, lower), (1, upper)):
            if sign * t < (zeta - p) / r1:
                out.append(row @ m1 + sign * r1 * norm)
            elif zeta / r2 < sign * t:
                out.append(row @ m2 + sign * r2 * norm)
            else:
                out.append(row @ psi + sign * width)
    return np.array(lower), np.array(upper)


@given(seed=st.integers(0, 2**32), d=st.integers(1, 12), where=st.floats(0.02, 0.98), ratio=st.floats(0.05, 20))
def test_it_is_the_three_case_formula(seed, d, where, ratio):
    rng = np.random.default_rng(seed)
    m1, m2, z = rng.standard_normal(d), rng.standard_normal(d), rng.standard_normal((30, d))
    z[0], z[1] = m1 - m2, m2 - m1
    p = float(np.linalg.norm(m1 - m2))
    r1 = p * ratio
    r2 = abs(p - r1) + where * (p + r1 - abs(p - r1))
    (lower, upper), _ = bounds(m1, r1, m2, r2, z)
    expected = three_cases(m1, r1, m2, r2, z)
    scale = 1 + (np.abs(m1).max() + r1 + r2) * np.linalg.norm(z, axis=1)
    assert np.all(lower <= expected[0] + 1e-15 * scale)
    assert np.all(upper >= expected[1] - 1e-15 * scale)
    np.testing.assert_allclose(lower / scale, expected[0] / scale, atol=2e-8)
    np.testing.assert_allclose(upper / scale, expected[1] / scale, atol=2e-8)
    generic = slice(2, None)
    np.testing.assert_allclose((lower / scale)[generic], (expected[0] / scale)[generic], atol=1e-12)
    np.testing.assert_allclose((upper / scale)[generic], (expected[1] / scale)[generic], atol=1e-12)


@given(seed=st.integers(0, 2**32), d=st.integers(1, 6), r1=st.floats(0, 3), r2=st.floats(0, 3), far=st.floats(0, 1))
def test_no_point_of_both_balls_is_outside_the_bounds(seed, d, r1, r2, far):
    """Whatever the balls: nested, touching, equal, of radius zero. Points are sampled in both."""
    rng = np.random.default_rng(seed)
    m1 = rng.standard_normal(d)
    step = rng.standard_normal(d)
    m2 = m1 + step / np.linalg.norm(step) * far * (r1 + r2)
    z = np.vstack([rng.standard_normal((10, d)), step, -step, np.zeros(d)])
    (lower, upper), alone = bounds(m1, r1, m2, r2, z)
    for ball_lower, ball_upper in alone:
        assert np.all(lower >= ball_lower)
        assert np.all(upper <= ball_upper)
    directions = rng.standard_normal((500, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for m, r in ((m1, r1), (m2, r2)):
        points = m + r * rng.random((500, 1)) ** 0.2 * directions
        inside = (np.linalg.norm(points - m1, axis=1) <= r1) & (np.linalg.norm(points - m2, axis=1) <= r2)
        products = points[inside] @ z.T
        assert np.all(products >= lower - 1e-13)
        assert np.all(products <= upper + 1e-13)


DEGENERATE = {
    "equal balls": ([0.0, 0.0], 1.0, [0.0, 0.0], 1.0),
    "same centre": ([1.0, 0.0], 2.0, [1.0, 0.0], 1.0),
    "second within first": ([0.0, 0.0], 3.0, [1.0, 0.0], 1.0),
    "first within second": ([1.0, 0.0], 1.0, [0.0, 0.0], 3.0),
    "touching from inside": ([0.0, 0.0], 2.0, [1.0, 0.0], 1.0),
    "touching from outside": ([0.0, 0.0], 1.0, [2.0, 0.0], 1.0),
    "a point in a ball": ([0.0, 0.0], 1.0, [0.5, 0.0], 0.0),
    "a point on a sphere": ([0.0, 0.0], 1.0, [1.0, 0.0], 0.0),
    "two points that are one": ([1.0, 1.0], 0.0, [1.0, 1.0], 0.0),
    "apart by rounding": ([0.0, 0.0], 1.0, [2.0 + 4e-16, 0.0], 1.0),
    "centres apart by rounding": ([1.0, 1.0], 1.0, [1.0 + 2e-16, 1.0], 1.0),
}


COMMON_POINT = {
    "second within first": [1.0, 0.5],
    "touching from inside": [2.0, 0.0],
    "touching from outside": [1.0, 0.0],
    "a point on a sphere": [1.0, 0.0],
    "two points that are one": [1.0, 1.0],
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_cases(name):
    m1, r1, m2, r2 = (np.array(v) if isinstance(v, list) else v for v in DEGENERATE[name])
    z = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [1e-9, 1.0], [3.0, 4.0], [0.0, 0.0]])
    (lower, upper), alone = bounds(m1, r1, m2, r2, z)
    assert np.all(np.isfinite(lower))
    assert np.all(np.isfinite(upper))
    assert np.all(lower >= np.maximum(alone[0][0], alone[1][0]))
    assert np.all(upper <= np.minimum(alone[0][1], alone[1][1]))
    assert lower[-1] == upper[-1] == 0.0
    if name in COMMON_POINT:
        point = z @ np.array(COMMON_POINT[name])
        assert np.all(lower <= point)
        assert np.all(upper >= point)


def test_balls_that_touch_leave_one_point():
    m1, r1, m2, r2 = (np.array(v) if isinstance(v, list) else v for v in DEGENERATE["touching from outside"])
    (lower, upper), _ = bounds(m1, r1, m2, r2, np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]]))
    np.testing.assert_allclose(upper, [1, 0, 3], atol=1e-6)
    np.testing.assert_allclose(lower, [1, 0, 3], atol=1e-6)


@given(seed=st.integers(0, 2**32), d=st.integers(1, 6), r1=st.floats(0.01, 3), r2=st.floats(0.01, 3))
def test_bounds_that_are_not_sharp_give_the_same_verdicts(seed, d, r1, r2):
    rng = np.random.default_rng(seed)
    m1, m2, z = rng.standard_normal(d), rng.standard_normal(d), 3 * rng.standard_normal((40, d))
    span, sizes = Span.of([m1, m2]), [float(np.linalg.norm(m)) for m in (m1, m2)]
    balls = Ball((1.0, 0.0), r1 * r1, 0.0, 0.0, sizes[0]), Ball((0.0, 1.0), r2 * r2, 0.0, 0.0, sizes[1])
    about = (z @ m1, z @ m2), np.linalg.norm(z, axis=1), [np.full(len(z), d)] * 2
    sharp, loose = (intersection_bounds(*balls, span, *about, costs)[:2] for costs in (None, np.ones(len(z))))
    if np.any(sharp[0] > sharp[1]):
        return  # balls that do not meet hold no w*
    np.testing.assert_array_equal(sharp[0] > 1.0, loose[0] > 1.0)
    np.testing.assert_array_equal(sharp[1] < 1.0, loose[1] < 1.0)
    assert np.all(loose[0] <= sharp[0])
    assert np.all(loose[1] >= sharp[1])


def test_bounds_that_are_not_sharp_leave_out_what_is_decided():
    z = np.array([[3.0, 0.5], [0.9, 1.0]])
    one, two = Ball((1.0, 0.0), 0.25, 0.0, 0.0, 1.0), Ball((0.0, 1.0), 0.25, 0.0, 0.0, 1.0)
    m1, m2 = np.array([1.0, 0.3]), np.array([1.0, -0.3])
    about = (z @ m1, z @ m2), np.linalg.norm(z, axis=1), [np.full(2, 2)] * 2
    span = Span.of([m1, m2])
    sharp, loose = (intersection_bounds(one, two, span, *about, costs)[:2] for costs in (None, np.ones(2)))
    assert loose[0][0] > 1.0
    assert sharp[0][0] > loose[0][0]
    assert (sharp[0][1], sharp[1][1]) == (loose[0][1], loose[1][1])


@pytest.mark.attack
@given(
    seed=st.integers(0, 2**32),
    d=st.integers(2, 5),
    drift=st.tuples(*[st.sampled_from([0.0, 1e-6, 1e-3])] * 2),
    sizes=st.sampled_from([(1.0, 1e-3), (1e-3, 1.0), (1.0, 1.0), (30.0, 1.0)]),
    overlap=st.floats(-1, 2),
    share=st.floats(0.1, 0.9),
)
def test_vectors_that_have_drifted_leave_both_balls_within_the_bounds(seed, d, drift, sizes, overlap, share):
    """The balls that hold w* are those of the vectors as they are meant; those that are known may all but touch."""
    rng = np.random.default_rng(seed)
    known = rng.standard_normal((2, d)) * np.array(sizes)[:, None]
    along = known[0] - known[1]
    off = np.sign(rng.standard_normal(2)) * np.array(drift) / np.linalg.norm(along)
    m1, m2 = known + off[:, None] * along
    p = float(np.linalg.norm(m1 - m2))
    r1 = share * p
    r2 = p - r1 + min(10.0**overlap * max(*drift, 1e-9), r1, p - r1)
    span, balls = Span.of(list(known), drift), []
    for centre, m, r in (((1.0, 0.0), m1, r1), ((0.0, 1.0), m2, r2)):
        rest = r * r - float(m @ m)
        balls.append(pair_ball(span, centre, centre, max(rest, 0.0), max(-rest, 0.0)))
    z = np.concatenate([rng.standard_normal((20, d)), [along, -along]])
    norms, lengths, products = np.linalg.norm(z, axis=1), np.full(len(z), d), tuple(z @ v for v in known)
    expected = three_cases(m1, r1, m2, r2, z)
    rounding = 1e-7 * p * norms * math.sqrt(max(sizes))  # of the expected ones, where balls all but touch
    both = intersection_bounds(*balls, span, products, norms, [lengths, lengths])[:2]
    for lower, upper in (both, *(ball_bounds(ball, products, norms, lengths) for ball in balls)):
        assert np.all(lower <= expected[0] + rounding)
        assert np.all(upper >= expected[1] - rounding)


def test_centres_that_are_nearer_than_they_seem_widen_where_balls_touch():
    m, drift = np.array([1.0, 0.0]), 1e-6
    span = Span.of([m, np.zeros(2)], [0.0, drift])
    balls = pair_ball(span, (1.0, 0.0), (1.0, 0.0), 0.0, 0.75), pair_ball(span, (0.0, 1.0), (0.0, 1.0), 0.25, 0.0)
    row, lengths = np.array([[0.0, 1.0]]), [np.full(1, 2)] * 2
    _, upper, _ = intersection_bounds(*balls, span, (row @ m, np.zeros(1)), np.ones(1), lengths)
    _, expected = three_cases(m, 0.5, np.array([drift, 0.0]), math.hypot(0.5, drift), row)
    assert expected[0] > 7e-4
    assert upper[0] >= expected[0] * (1 - 1e-9)


@pytest.mark.attack
@given(
    seed=st.integers(0, 2**32),
    d=st.integers(2, 5),
    doubt=st.sampled_from([1e-9, 1e-6, 1e-3]),
    sign=st.sampled_from([-1.0, 1.0]),
    above=st.sampled_from([0.0, 0.9]),
    overlap=st.floats(-1, 2),
    share=st.floats(0.1, 0.9),
)
def test_inner_products_in_doubt_leave_both_balls_within_the_bounds(seed, d, doubt, sign, above, overlap, share):
    """As with a kernel, whose values are rounded: those of a vector with itself are upper bounds.

    The slack of the radii and the doubt of p^2 cover each other: R^2 falls short by at most doubt s (1 - s) (|m1| +
    |m2|)^2, which is doubt (s |m1|^2 + (1 - s) |m2|^2 - (s |m1| - (1 - s) |m2|)^2). Without both this fails.
    """
    rng = np.random.default_rng(seed)
    m1, m2 = rng.standard_normal((2, d))
    p, sizes = float(np.linalg.norm(m1 - m2)), [float(np.linalg.norm(m)) for m in (m1, m2)]
    squares, off = [size * size * (1 + above * doubt) for size in sizes], 0.9 * sign * doubt * sizes[0] * sizes[1]
    inner = float(m1 @ m2) + off
    span = Span(((squares[0], inner), (inner, squares[1])), (0.0, 0.0), 1.0, doubt)
    r1 = share * p
    r2 = p - r1 + min(10.0**overlap * doubt, r1, p - r1)
    rests = [r * r - size * size for r, size in zip((r1, r2), sizes, strict=True)]
    centres = (1.0, 0.0), (0.0, 1.0)
    balls = [pair_ball(span, at, at, max(x, 0.0), max(-x, 0.0)) for at, x in zip(centres, rests, strict=True)]
    z = np.concatenate([rng.standard_normal((20, d)), [m1 - m2, m2 - m1]])
    norms, lengths, products = np.linalg.norm(z, axis=1), np.full(len(z), d), (z @ m1, z @ m2)
    lower, upper, _ = intersection_bounds(*balls, span, products, norms, [lengths, lengths])
    expected = three_cases(m1, r1, m2, r2, z)
    assert np.all(lower <= expected[0] + 1e-7 * p * norms)
    assert np.all(upper >= expected[1] - 1e-7 * p * norms)
