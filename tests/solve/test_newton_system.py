"""The linear systems of newton, in every form, against a dense solve."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.solve import newton_cg, newton_system
from pipeline.solve.newton_system import Systems, features_are_cheaper
from pipeline.solve.reduced import ReducedProblem
from pipeline.solve.rows import rows_of

FORMS = ["features", "rows", "gradients", "gradients, some features exactly", "gradients, all features exactly"]


def made(seed: int, n: int, d: int, sparse: bool, dtype: type) -> ReducedProblem:
    rng = np.random.default_rng(seed)
    z = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)).astype(dtype)
    z[n // 2] = 0.0
    return ReducedProblem(sp.csr_array(z) if sparse else z.astype(np.float64), np.ones(n), np.zeros(d))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_each_form_solves_the_same_system(monkeypatch, form, sparse, dtype):
    problem = made(3, 60, 25, sparse, dtype)
    rng = np.random.default_rng(4)
    free = np.sort(rng.choice(60, 50 if form == "features" else 12, replace=False))
    sigma, right = rng.uniform(0.1, 10.0, 60), rng.standard_normal(25)
    if form.startswith("gradients"):
        monkeypatch.setattr(newton_system, "DIRECT_SIZE", 0)
        monkeypatch.setattr(newton_cg, "CG_TOLERANCE", 1e-12)
        monkeypatch.setattr(newton_cg, "FREQUENT", 7 if "some" in form else 300 if "all" in form else 0)
    monkeypatch.setattr(newton_system, "features_are_cheaper", lambda *_: form == "features")
    z = problem.z.toarray().astype(float) if sparse else problem.z
    wanted = np.linalg.solve(np.eye(25) + (z[free].T * sigma[free]) @ z[free], right)
    np.testing.assert_allclose(Systems(problem).solve(free, sigma, right), wanted, rtol=1e-8, atol=1e-10)


def test_known_features_save_steps_of_conjugate_gradients(monkeypatch):
    """Some columns that go up and down together, and hundreds that few rows have."""
    rng = np.random.default_rng(9)
    common = np.cumsum(rng.standard_normal((2000, 60)), axis=1)
    z = np.hstack([common, rng.random((2000, 300)) < 0.003]).astype(float)
    rows, free = rows_of(ReducedProblem(sp.csr_array(z), np.ones(2000), np.zeros(360))), np.arange(2000)
    monkeypatch.setattr(newton_cg, "CG_TOLERANCE", 1e-6)
    steps, usual = [], newton_cg.hessian_times
    monkeypatch.setattr(newton_cg, "hessian_times", lambda *given: steps.append(len(steps)) or usual(*given))
    counts = {}
    for known in (0, 60):
        monkeypatch.setattr(newton_cg, "FREQUENT", known)
        steps.clear()
        newton_cg.conjugate_gradients(rows, free, np.full(2000, 10.0), rng.standard_normal(360))
        counts[known] = len(steps)
    assert counts[60] <= 0.5 * counts[0]


def test_a_block_that_rounding_made_indefinite_is_left_out():
    """Two equal columns, and a sigma beside which 1 is nothing."""
    z = np.repeat(np.random.default_rng(10).standard_normal((40, 3)), 2, axis=1)
    rows = rows_of(ReducedProblem(sp.csr_array(z), np.ones(40), np.zeros(6)))
    found = newton_cg.conjugate_gradients(rows, np.arange(40), np.full(40, 1e25), np.ones(6))
    assert np.isfinite(found).all()


def test_without_free_rows_the_system_is_the_identity():
    problem = made(5, 6, 4, True, np.float64)
    right = np.arange(4.0)
    np.testing.assert_array_equal(Systems(problem).solve(np.empty(0, np.int64), np.ones(6), right), right)


def test_products_with_rows_and_their_transpose():
    sparse, dense = made(6, 40, 15, True, np.float64), made(6, 40, 15, False, np.float64)
    rng = np.random.default_rng(7)
    w, alpha = rng.standard_normal(15), rng.uniform(0, 1, 40) * (rng.random(40) < 0.5)
    for problem in (sparse, dense):
        np.testing.assert_allclose(Systems(problem).margins(w), dense.z @ w, atol=1e-12)
        np.testing.assert_allclose(Systems(problem).combine(alpha), dense.z.T @ alpha, atol=1e-12)


def test_a_matrix_that_rounding_made_indefinite_is_repaired_or_refused():
    ones = np.ones((3, 3))
    found = newton_system._solve_positive(ones.copy(), np.ones(3))
    np.testing.assert_allclose(ones @ found, np.ones(3), rtol=1e-6)
    assert np.isnan(newton_system._solve_positive(-np.eye(3), np.ones(3))).all()


def test_the_cheaper_form_is_that_of_the_smaller_side():
    assert features_are_cheaper(free=10_000, d=100, length=14.0)
    assert not features_are_cheaper(free=50, d=2000, length=50.0)
