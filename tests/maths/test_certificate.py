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

from pipeline.maths import problem
from pipeline.maths.certificate import Certificate, certify, sums_of


def exact_certificate(z, costs, c, w, alpha):
    """Primal and dual in rational arithmetic: no rounding at all."""
    rows = [[Fraction(float(v)) for v in row] for row in z]
    w_exact, a = [Fraction(float(v)) for v in w], [Fraction(float(v)) for v in alpha]
    f = [sum(v * x for v, x in zip(row, w_exact, strict=True)) for row in rows]
    hinge = sum(Fraction(float(k)) * max(Fraction(0), 1 - m) for k, m in zip(costs, f, strict=True))
    w_alpha = [sum(ai * row[j] for ai, row in zip(a, rows, strict=True)) for j in range(z.shape[1])]
    primal = sum(v * v for v in w_exact) / 2 + Fraction(c) * hinge
    return float(primal), float(sum(a) - sum(v * v for v in w_alpha) / 2)


def partial(z, costs, w, alpha, rows):
    norms, lengths = problem.row_norms(z[rows]), problem.row_lengths(z[rows])
    f = problem.margins(z[rows], w)
    return sums_of(f, alpha[rows], costs[rows], norms, lengths, float(np.linalg.norm(w)))


@given(seed=st.integers(0, 2**32), n=st.integers(1, 30), d=st.integers(1, 6), c=st.floats(1e-4, 1e4))
def test_it_equals_exact_arithmetic(seed, n, d, c):
    rng = np.random.default_rng(seed)
    z, costs = rng.standard_normal((n, d)), 10.0 ** rng.uniform(-3, 3, n)
    w, alpha = rng.standard_normal(d), c * costs * rng.random(n)
    w_alpha = z.T @ alpha
    found = certify(c, partial(z, costs, w, alpha, slice(None)), float(w @ w), float(w_alpha @ w_alpha))
    primal, dual = exact_certificate(z, costs, c, w, alpha)
    reach = float(alpha @ np.linalg.norm(z, axis=1))  # w_alpha may cancel: it is known to about 1e-16 of this
    size = alpha.sum() + w_alpha @ w_alpha + n * np.linalg.norm(w_alpha) * reach * 1e-2
    assert found.primal == pytest.approx(primal, rel=1e-13)
    assert found.dual == pytest.approx(dual, abs=1e-13 * size)
    assert found.primal >= found.dual - 1e-13 * size
    assert found.n_rows == n


@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 50), max_size=8))
def test_merging_is_associative_to_the_bit(seed, cuts):
    rng = np.random.default_rng(seed)
    z, costs, w = rng.standard_normal((50, 4)), rng.uniform(0.1, 2, 50), rng.standard_normal(4)
    alpha = costs * rng.random(50)
    edges = [0, *sorted(cuts), 50]
    parts = [partial(z, costs, w, alpha, slice(a, b)) for a, b in pairwise(edges)]
    left = reduce(lambda a, b: a + b, parts)
    right = reduce(lambda a, b: b + a, reversed(parts))
    assert left == right
    whole = partial(z, costs, w, alpha, slice(None))
    assert float(left.hinge) == pytest.approx(float(whole.hinge), rel=1e-15)
    assert float(left.alpha) == pytest.approx(float(whole.alpha), rel=1e-15)


def test_sums_survive_many_magnitudes():
    """A naive sum loses the small terms; fsum is the judge."""
    alpha = np.concatenate([[1e16], np.ones(1000), [-0.0, 1e-8]])
    n = alpha.size
    sums = sums_of(np.full(n, 2.0), alpha, np.ones(n), np.ones(n), np.ones(n, int), 1.0)
    assert float(sums.alpha) == math.fsum(alpha)


def test_real_data_sparse_and_dense():
    x, y = load_breast_cancer(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), 2 * y - 1
    w, alpha, costs = np.linspace(-1, 1, 30), np.linspace(0, 0.5, 569), np.ones(569)
    found = []
    for z in (problem.rows_of(x, y), problem.rows_of(sp.csr_array(x), y)):
        w_alpha = problem.combination(z, alpha)
        sums = partial(z, costs, w, alpha, slice(None))
        found.append(certify(0.5, sums, float(w @ w), float(w_alpha @ w_alpha)))
        assert found[-1].primal == pytest.approx(problem.primal(w, problem.margins(z, w), costs, 0.5), rel=1e-13)
        assert found[-1].dual == pytest.approx(problem.dual(alpha, w_alpha), rel=1e-12)
    assert found[0].relative_gap == pytest.approx(found[1].relative_gap, rel=1e-12)


def test_it_is_frozen_and_relative_gap_is_p_minus_d_over_p():
    certificate = Certificate(c=1.0, primal=4.0, dual=3.0, n_rows=7)
    assert (certificate.gap, certificate.relative_gap) == (1.0, 0.25)
    assert Certificate(1.0, 0.0, 0.0, 0).relative_gap == 0.0
    with pytest.raises(AttributeError):
        certificate.c = 2.0
