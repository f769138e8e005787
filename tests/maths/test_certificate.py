"""A certificate equals what an independent full computation gives, however the rows were cut and merged."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from pipeline.errors import SpecError
from pipeline.maths.ball import drift_of_sum
from pipeline.maths.certificate import Certificate, Sums, certify, sums_of
from pipeline.maths.certified_pair import _from_the_dual
from pipeline.maths.rounding import square, square_between
from pipeline.maths.slack import Near, near_margin
from tests.in_memory import problem


def exact_certificate(z, costs, c, w, alpha):
    """Primal and dual in rational arithmetic: no rounding at all."""
    rows = [[Fraction(float(v)) for v in row] for row in z]
    w_exact, a = [Fraction(float(v)) for v in w], [Fraction(float(v)) for v in alpha]
    f = [sum(v * x for v, x in zip(row, w_exact, strict=True)) for row in rows]
    hinge = sum(Fraction(float(k)) * max(Fraction(0), 1 - m) for k, m in zip(costs, f, strict=True))
    w_alpha = [sum(ai * row[j] for ai, row in zip(a, rows, strict=True)) for j in range(z.shape[1])]
    primal = sum(v * v for v in w_exact) / 2 + Fraction(c) * hinge
    return primal, sum(a) - sum(v * v for v in w_alpha) / 2


def partial(z, costs, c, w, alpha, rows):
    norms, lengths = problem.row_norms(z[rows]), problem.row_lengths(z[rows])
    f, size = problem.margins(z[rows], w), float(np.linalg.norm(w)) * (1 + 1e-12)
    some = sp.csr_array(z[rows])
    matrix = some.indptr, some.indices, some.data, np.ones(f.size, np.int8)
    near = near_margin(matrix, norms, w, f, size)
    return sums_of(c, f, alpha[rows], costs[rows], norms, lengths, size, near)


def certificate_of(z, costs, c, w, alpha):
    w_alpha = problem.combination(z, alpha)
    drift = drift_of_sum(float(alpha @ problem.row_norms(z)), len(alpha))
    apart = float(np.linalg.norm(w - w_alpha)) * (1 + 1e-12) + drift
    return certify(c, partial(z, costs, c, w, alpha, slice(None)), square_between(w), apart)


@pytest.mark.attack
@given(
    seed=st.integers(0, 2**32), n=st.integers(1, 30), d=st.integers(1, 6), c=st.floats(1e-4, 1e4), near=st.booleans()
)
def test_it_holds_in_exact_arithmetic_and_is_tight(seed, n, d, c, near):
    rng = np.random.default_rng(seed)
    z, costs = rng.standard_normal((n, d)), 10.0 ** rng.uniform(-3, 3, n)
    w, alpha = rng.standard_normal(d), c * costs * rng.choice([0.0, 0.3, 1.0], n)
    if near:  # margins within a few roundings of 1
        z /= np.where(np.abs(z @ w) > 1e-3, z @ w, 1.0)[:, None]
    found = certificate_of(z, costs, c, w, alpha)
    primal, dual = exact_certificate(z, costs, c, w, alpha)
    assert Fraction(found.primal) >= primal
    assert Fraction(found.dual) <= dual
    reach = float(alpha @ np.linalg.norm(z, axis=1))  # w_alpha is known to about 1e-16 of this
    assert float(Fraction(found.primal) - primal) <= 1e-13 * float(primal) * (1 + np.linalg.norm(z) * np.linalg.norm(w))
    size = found.gap + float(primal) + reach * np.linalg.norm(w)
    assert float(dual - Fraction(found.dual)) <= 1e-11 * size * (1 + np.linalg.norm(z)) + n * 1e-15 * reach**2
    assert found.gap >= 0


@pytest.mark.attack
@pytest.mark.parametrize("scale", [1.0, 1e5, 1e7, 1e100, 1e-100])
def test_rows_on_the_margin_of_unscaled_separable_data(scale):
    """Their rounding, times C, exceeds the gap: a certificate that leaves it out is far too good."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(5) / scale
    z = rng.standard_normal((60, 5)) * scale
    z /= (z @ w)[:, None]
    c, costs, alpha = 1e20 / scale**2, np.ones(60), np.full(60, 1e-2 / scale**2)
    found = certificate_of(z, costs, c, w, alpha)
    primal, dual = exact_certificate(z, costs, c, w, alpha)
    assert Fraction(found.primal) >= primal
    assert Fraction(found.dual) <= dual
    assert found.primal <= float(primal) * (1 + 1e-6)
    assert found.unattainable > float(primal) * 1e-3


@pytest.mark.attack
def test_slacks_near_the_margin_are_almost_exact():
    rng = np.random.default_rng(1)
    w = rng.standard_normal(40)
    z = rng.standard_normal((200, 40)) * 10.0 ** rng.uniform(-6, 6, (200, 40))
    z /= (z @ w)[:, None]
    norms, some = np.linalg.norm(z, axis=1), sp.csr_array(z)
    labels = rng.choice(np.array([-1, 1], np.int8), 200)
    matrix = some.indptr, some.indices, labels[some.nonzero()[0]] * some.data, labels
    near = near_margin(matrix, norms, w, z @ w, float(np.linalg.norm(w)) * (1 + 1e-12))
    assert near.rows.size == 200
    for k, i in enumerate(near.rows):
        exact = 1 - sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(z[i], w, strict=True))
        assert abs(Fraction(float(near.slack[k])) - exact) <= Fraction(float(near.error[k]))
        assert near.error[k] <= 1e-15 * abs(near.slack[k]) + 1e-27 * (1 + norms[i] * np.linalg.norm(w))
    other = near_margin(matrix, norms, 2 * w, 2 * (z @ w), 2 * float(np.linalg.norm(w)))
    assert set(other.rows) == set(
        np.flatnonzero(np.abs(1 - 2 * (z @ w)) <= 2.0**26 * 42 * 2.0**-53 * norms * 2 * np.linalg.norm(w) * (1 + 1e-6))
    )


@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 50), max_size=8))
def test_merging_is_associative_to_the_bit(seed, cuts):
    rng = np.random.default_rng(seed)
    z, costs, w = rng.standard_normal((50, 4)), rng.uniform(0.1, 2, 50), rng.standard_normal(4)
    alpha = costs * rng.random(50)
    edges = [0, *sorted(cuts), 50]
    parts = [partial(z, costs, 1.0, w, alpha, slice(a, b)) for a, b in pairwise(edges)]
    left = reduce(lambda a, b: a + b, parts)
    right = reduce(lambda a, b: b + a, reversed(parts))
    assert left == right
    whole = partial(z, costs, 1.0, w, alpha, slice(None))
    assert float(left.hinge) == pytest.approx(float(whole.hinge), rel=1e-14)
    assert float(left.alpha) == pytest.approx(float(whole.alpha), rel=1e-15)


def test_sums_survive_many_magnitudes():
    """A naive sum loses the small terms; fsum is the judge."""
    alpha = np.concatenate([[1e16], np.ones(1000), [-0.0, 1e-8]])
    n = alpha.size
    sums = sums_of(1e16, np.full(n, 2.0), alpha, np.ones(n), np.ones(n), np.ones(n, int), 1.0)
    assert float(sums.alpha) == math.fsum(alpha)


@pytest.mark.attack
@given(seed=st.integers(0, 2**32), n=st.integers(1, 20), c=st.floats(1e-4, 1e4))
def test_sums_of_slacks_that_are_exact_are_on_the_right_side(seed, n, c):
    """Nothing is left that could hide the rounding of products, and of their sums."""
    rng = np.random.default_rng(seed)
    slack, costs, norms = rng.standard_normal(n), rng.random(n) + 0.5, rng.random(n)
    u = c * costs
    alpha = u * rng.random(n)
    near = Near(np.arange(n), slack, np.zeros(n))
    found = sums_of(c, 1.0 - slack, alpha, costs, norms, np.ones(n, int), 1.0, near)
    s, k, a, box, z = ([Fraction(v) for v in x.tolist()] for x in (slack, costs, alpha, u, norms))
    hinge = sum(kk * max(Fraction(0), x) for kk, x in zip(k, s, strict=True))
    gap = sum((b - y) * x if x > 0 else -y * x for b, y, x in zip(box, a, s, strict=True))
    assert found.hinge_low <= hinge <= found.hinge
    assert gap <= found.gap
    assert sum(x * y for x, y in zip(a, z, strict=True)) <= found.reach
    assert float(found.hinge - found.hinge_low) <= 1e-13 * float(found.hinge) + 1e-300


@pytest.mark.attack
@given(seed=st.integers(0, 2**32), d=st.integers(2, 30), drift=st.sampled_from([0.0, 1e-3]))
def test_a_hinge_from_the_dual_value_is_not_below_the_truth(seed, d, drift):
    """Where w and w_alpha are all but orthogonal their product has few digits that are right.

    And sum alpha_i z_i may be anywhere within the drift of w_alpha.
    """
    rng = np.random.default_rng(seed)
    w, other = rng.standard_normal((2, d))
    w_alpha = other - (other @ w) / (w @ w) * w + 1e-14 * w
    exact = sum(Fraction(x) * Fraction(y) for x, y in zip(w.tolist(), w_alpha.tolist(), strict=True))
    alpha = max(Fraction(0), Fraction(float(exact)))
    sums = Sums(3, Fraction(10) ** 6, Fraction(0), Fraction(0), alpha, Fraction(3), Fraction(0))
    found, dual_square = _from_the_dual(1.0, sums, w, w_alpha, drift, square(w))
    assert found.hinge >= alpha - exact + Fraction(float(np.linalg.norm(w)) * drift) * (1 - Fraction(1, 10**15))
    assert dual_square >= Fraction(float(np.linalg.norm(w_alpha)) + drift) ** 2 * (1 - Fraction(1, 10**15))


@pytest.mark.attack
def test_what_is_beyond_float64_is_one_line():
    ones = np.ones(2)
    for f, c in ((np.array([np.inf, 0.0]), 1.0), (np.array([-1e200, 0.0]), 1e200)):
        with pytest.raises(SpecError, match="scale the features"):
            sums_of(c, f, ones, ones, ones, np.ones(2, int), 1.0)


def test_real_data_sparse_and_dense():
    x, y = load_breast_cancer(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), 2 * y - 1
    w, alpha, costs = np.linspace(-1, 1, 30), np.linspace(0, 0.5, 569), np.ones(569)
    found = []
    for z in (problem.signed(x, y), problem.signed(sp.csr_array(x), y)):
        w_alpha = problem.combination(z, alpha)
        found.append(certificate_of(z, costs, 0.5, w, alpha))
        assert found[-1].primal == pytest.approx(problem.primal(w, problem.margins(z, w), costs, 0.5), rel=1e-13)
        assert found[-1].dual == pytest.approx(problem.dual(alpha, w_alpha), rel=1e-11)
    assert found[0].relative_gap == pytest.approx(found[1].relative_gap, rel=1e-11)


def test_it_is_frozen_and_relative_gap_is_p_minus_d_over_p():
    certificate = Certificate(c=1.0, primal=4.0, dual=3.0)
    assert (certificate.gap, certificate.relative_gap) == (1.0, 0.25)
    assert Certificate(1.0, 0.0, 0.0).relative_gap == 0.0
    for primal, dual in ((math.inf, 1.0), (1.0, -math.inf)):
        beyond = Certificate(1.0, primal, dual)
        assert beyond.gap == beyond.relative_gap == math.inf
    with pytest.raises(AttributeError):
        certificate.c = 2.0
