"""The exactness script finds nothing wrong in a few problems, and would find it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from pipeline.maths import ball, certificate, estimate
from pipeline.maths.rules import bt1
from tests.exact_oracle import dot, optimum
from tests.exactness import Judge, asleep, one, through_the_door
from tests.in_memory.screening import MemoryRows, refer
from tests.oracle import solve

pytestmark = pytest.mark.attack


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_few_hundred_problems(tmp_path):
    judge = Judge()
    for number in range(300):
        one(1, number, judge)
    for number in range(3):
        through_the_door(1, number, judge, tmp_path)
    assert not judge.wrong
    assert judge.tried["decided"] > 500
    assert judge.tried["certificates"] > 250
    assert judge.tried["runs"] >= 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_certificates_that_read_any_few_rows():
    judge = Judge()
    for number in range(120):
        asleep(1, number, judge)
    assert not judge.wrong
    assert judge.tried["not read"] > 150
    assert judge.tried["decided"] > 300


def nearer(found):
    return replace(found, apart=0.3 * found.apart, weighted=0.3 * found.weighted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_it_finds_rows_that_are_known_too_well(monkeypatch):
    """A third of what they may be off; and nothing of what is lost by a sum over many rows."""
    usual = estimate.KnownVectors.estimate
    monkeypatch.setattr(estimate.KnownVectors, "estimate", lambda *about: nearer(usual(*about)))
    judge = Judge()
    for number in range(60):
        asleep(1, number, judge)
    assert judge.wrong


def test_it_would_find_a_wrong_verdict_and_a_wrong_certificate():
    judge = Judge()
    judge.verdicts(
        np.array([1, 2, 0, 1, 2]), [Fraction(2), Fraction(0), Fraction(1), Fraction(1), Fraction(9, 8)], "planted"
    )
    assert len(judge.wrong) == 2
    exact = Fraction(2), Fraction(1)
    for said in ((2.0, 1.0, 0.5), (2.0, 0.5, 0.75)):
        judge.certificate(said, exact, "true")
    for said in ((1.9, 1.0, 0.5), (2.0, 1.1, 0.5), (2.0, 1.0, 0.4), (2.0, 1.0, -0.1)):
        judge.certificate(said, exact, "planted")
    assert len(judge.wrong) == 6


BT1 = bt1.ball


def half_the_radius(ref, c):
    found = BT1(ref, c)
    return replace(found, radius_squared=found.radius_squared / 4)


BROKEN = {
    "a radius of half its size": (bt1, "ball", half_the_radius),
    "nan means 0": (ball, "not_below_zero", lambda x: max(0.0, x)),
    "margins have no rounding": (certificate, "product_error", lambda lengths, norms, size: 0.0 * norms),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("broken", BROKEN)
def test_it_finds_a_bound_that_was_broken_on_purpose(monkeypatch, broken):
    monkeypatch.setattr(*BROKEN[broken])
    judge = Judge()
    for number in range(160, 200):
        one(7, number, judge)
        on_the_margin(number, judge)
    assert judge.wrong


def on_the_margin(number: int, judge: Judge) -> None:
    """Judge the certificate of rows whose margins are 1 but for rounding, of terms that cancel, at a large C."""
    rng, c = np.random.default_rng(number), 1e12
    z = np.repeat(rng.integers(1, 1000, (1, 3)), 3, axis=0).astype(float)
    w = rng.standard_normal(3)
    w -= ((z[0] * w).sum() - 1.0) / (z[0] @ z[0]) * z[0]
    found = refer(MemoryRows.of(z), c, w, np.zeros(3), np.zeros(3)).reference.certificate
    exact = [Fraction(v) for v in w]
    slack = max(Fraction(0), 1 - dot(exact, [Fraction(v) for v in z[0]]))
    values = dot(exact, exact) / 2 + Fraction(c) * 3 * slack, Fraction(0)
    judge.certificate((found.primal, found.dual, found.relative_gap), values, f"on the margin, {number}")


def test_rows_on_the_margin():
    judge = Judge()
    for number in range(300):
        on_the_margin(number, judge)
    assert not judge.wrong


@pytest.mark.parametrize("seed", range(20))
def test_the_exact_optimum_is_the_other_oracle_s(seed):
    rng = np.random.default_rng(seed)
    z, c = rng.integers(-4, 5, (6, 3)), float(rng.uniform(0.01, 2))
    w, alpha = optimum(z.tolist(), [Fraction(c)] * 6)
    np.testing.assert_allclose([float(v) for v in w], solve(z.astype(float), c).w.astype(float), atol=1e-6)
    assert all(0 <= a <= c for a in alpha)
    assert [dot(alpha, column) for column in z.T.tolist()] == w
