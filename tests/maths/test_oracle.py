"""The judge is judged first: against scikit-learn on easy problems, and against solutions known by algebra."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.svm import LinearSVC

from tests.oracle import solve


@pytest.mark.parametrize("c", [0.01, 1.0])
def test_agrees_with_linear_svc(c):
    x, y = make_classification(150, 12, n_informative=6, random_state=3)
    y = 2 * y - 1
    model = LinearSVC(C=c, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6).fit(x, y)
    optimum = solve(y[:, None] * x, c)
    assert optimum.relative_gap < 1e-12
    np.testing.assert_allclose(optimum.w.astype(float), model.coef_[0], atol=1e-6)


def test_agrees_with_linear_svc_with_weights():
    x, y = load_breast_cancer(return_X_y=True)
    x, y = ((x - x.mean(0)) / x.std(0))[:100], 2 * y[:100] - 1
    weights = np.linspace(0.5, 3, 100)
    model = LinearSVC(C=0.01, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6)
    model.fit(x, y, sample_weight=weights)
    np.testing.assert_allclose(solve(y[:, None] * x, 0.01, weights).w.astype(float), model.coef_[0], atol=1e-6)


def test_one_row_by_algebra():
    """A single row z: alpha = min(C, 1/|z|^2)."""
    z = np.array([[3.0, 4.0]])
    assert float(solve(z, 1.0).alpha[0]) == pytest.approx(1 / 25, rel=1e-12)
    assert float(solve(z, 0.01).alpha[0]) == pytest.approx(0.01, rel=1e-12)


def test_a_repeated_row_is_a_row_of_twice_the_cost():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((20, 5))
    twice = solve(np.vstack([z, z]), 0.3)
    np.testing.assert_allclose(twice.w.astype(float), solve(z, 0.3, np.full(20, 2.0)).w.astype(float), atol=1e-9)
