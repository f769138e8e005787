"""Safe in floating point: bounds within a few ulps of 1, and long rows of wildly different magnitudes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from pipeline.maths.ball import Ball, Span, ball_bounds
from pipeline.maths.intersection import intersection_bounds
from pipeline.maths.rounding import UNIT, compensated_dot, down, inner, product_error, root, square, up
from pipeline.maths.verdicts import KEEP, UPPER, ZERO, verdicts
from tests.in_memory.screening import MemoryRows, refer, screen, screened_share, screening_rate


def exact_dot(a, b):
    return sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("ulps", range(-3, 4))
def test_a_bound_within_a_few_ulps_of_one_decides_nothing(ulps):
    """Rows whose margin is 1 + a few ulps at a reference without any gap: rounding alone could have put it there."""
    value = 1.0 + ulps * 2 * UNIT
    z = np.array([[value, 0.0], [0.0, 0.3]])
    w = np.array([1.0, 0.0])
    ball = Ball((1.0,), 0.0, 0.0, 0.0, 1.0)
    lower, upper = ball_bounds(ball, (z @ w,), np.linalg.norm(z, axis=1), np.array([1, 1]))
    assert verdicts(lower, upper).tolist() == [KEEP, UPPER]
    assert lower[0] < value < upper[0]


@pytest.mark.parametrize("seed", range(6))
def test_margins_that_are_one_by_construction_are_never_screened(seed):
    """Rows scaled so that z_i . w = 1 to the last bit or two: the bounds hold the exact product."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(40)
    z = rng.standard_normal((300, 40)) * 10.0 ** rng.uniform(-6, 6, (300, 40))
    z /= (z @ w)[:, None]
    size = float(np.linalg.norm(w))
    ball = Ball((1.0,), 0.0, 0.0, 0.0, size)
    f = z @ w
    lower, upper = ball_bounds(ball, (f,), np.linalg.norm(z, axis=1), np.full(300, 40))
    truth = [exact_dot(row, w) for row in z]
    assert all(Fraction(float(a)) <= t <= Fraction(float(b)) for a, t, b in zip(lower, truth, upper, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_long_rows_of_wildly_different_magnitudes(seed):
    """100,000 nonzeros from 1e-12 to 1e12 that cancel: most digits are wrong, the bounds still hold."""
    rng = np.random.default_rng(seed)
    n = 100_000
    row = rng.standard_normal(n) * 10.0 ** rng.uniform(-12, 12, n)
    row[n // 2 :] = -row[: n // 2]
    w = np.ones(n)
    w[n // 2 :] += 1e-9 * rng.standard_normal(n // 2)
    f = np.array([row @ w])
    norm = np.array([np.linalg.norm(row)])
    truth = exact_dot(row, w)
    error = product_error(np.array([n]), norm, float(np.linalg.norm(w)))[0]
    assert abs(Fraction(float(f[0])) - truth) <= Fraction(float(error))
    ball = Ball((1.0,), 0.0, 0.0, 0.0, float(np.linalg.norm(w)))
    lower, upper = ball_bounds(ball, (f,), norm, np.array([n]))
    assert Fraction(float(lower[0])) <= truth <= Fraction(float(upper[0]))


def test_a_reference_that_claims_no_gap_is_still_not_trusted_beyond_rounding():
    """Rows on the margin of the exact solution stay KEEP at the same C."""
    z = np.array([[2.0], [2.0], [2.0], [-1.0]])
    alpha = np.array([0.2, 0.2, 0.2, 0.7])
    rows = MemoryRows.of(z)
    found = screen(rows, refer(rows, 0.7, np.array([0.5]), alpha, w_alpha=np.array([0.5])), 0.7, "gap")
    assert found.verdicts.tolist() == [KEEP, KEEP, KEEP, UPPER]


def test_compensated_sums():
    assert compensated_dot(np.array([1e100, 1.0, -1e100, 1e-30]), np.ones(4)) == 1.0
    y = np.random.default_rng(0).standard_normal(10_000)
    assert abs(Fraction(float(compensated_dot(y, y))) - exact_dot(y, y)) <= Fraction(float(4 * UNIT * (y @ y)))


@pytest.mark.attack
@pytest.mark.parametrize("decade", [-300, -160, -100, 0, 100, 160, 300])
def test_squares_and_products_at_any_magnitude(decade):
    rng = np.random.default_rng(decade + 400)
    x, y = rng.standard_normal(50) * 10.0**decade, rng.standard_normal(50)
    for a, b in ((x, x), (x, y), (y, x)):
        sizes = root(square(a)) * root(square(b))
        exact = exact_dot(a, b)
        scale = Fraction(float(np.abs(a).max())) * Fraction(float(np.abs(b).max())) * 50
        assert abs(inner(a, b, sizes) - exact) <= scale * Fraction(3 * UNIT)
    assert root(square(x)) == pytest.approx(np.linalg.norm(x / 10.0**decade) * 10.0**decade, rel=1e-14)


@pytest.mark.attack
def test_directed_rounding():
    for q in (Fraction(1, 3), Fraction(-1, 3), Fraction(1, 2), Fraction(1, 10**400), Fraction(0), Fraction(10**400)):
        assert down(q) <= q <= up(q)
        assert up(q) in (down(q), math.nextafter(down(q), math.inf))
    assert root(Fraction(10**700)) == np.inf
    assert (up(Fraction(1, 10**400)), down(Fraction(1, 10**400))) == (5e-324, 0.0)
    assert (down(Fraction(10**400)), up(Fraction(10**400))) == (np.finfo(float).max, np.inf)


@pytest.mark.attack
def test_an_overflow_in_a_ball_decides_nothing():
    """max(0.0, nan) is 0.0: a radius that is not a number became none at all."""
    for wrong in (np.nan, np.inf):
        lower, upper = ball_bounds(Ball((1.0,), wrong, 0.0, 0.0, 1.0), (np.array([5.0, -5.0]),), np.ones(2), np.ones(2))
        assert verdicts(lower, upper).tolist() == [KEEP, KEEP]
    span = Span(((1e200, np.inf), (np.inf, 1e200)), (0.0, 0.0))
    assert not span.square((1e200, -1e200)) < np.inf
    one, two = Ball((1.0, 0.0), 1.0, 0.0, 0.0, 1.0), Ball((0.0, 1.0), np.nan, np.nan, 0.0, 1.0)
    lower, upper, _ = intersection_bounds(one, two, span, (np.array([3.0]),) * 2, np.ones(1), [np.ones(1)] * 2)
    assert 1.9 < lower[0] < 2.0
    assert 4.0 < upper[0] < 4.1


def test_verdicts_and_rates():
    lower = np.array([1.1, 0.5, -2.0, 1.0, np.nan, 0.0])
    upper = np.array([2.0, 1.5, 0.9, 1.0, np.nan, 0.0])
    found = verdicts(lower, upper)
    assert found.tolist() == [ZERO, KEEP, UPPER, KEEP, KEEP, UPPER]
    assert found.dtype == np.int8
    assert screened_share(found) == 0.5
    on_margin = np.array([False, True, False, True, False, False])
    assert screening_rate(found, on_margin) == 0.75
    assert screening_rate(found[:0], on_margin[:0]) == 1.0


def test_the_span_does_not_lose_small_differences():
    w = np.random.default_rng(1).standard_normal(1000)
    span = Span.of([w, w * (1 + 1e-10)])
    assert span.square((1.0, -1.0)) == pytest.approx(0, abs=1e-12 * float(w @ w))
    assert span.size((1.0, -1.0)) == pytest.approx(2 * np.linalg.norm(w), rel=1e-9)
