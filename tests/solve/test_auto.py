"""When dcd is given up for newton: where it is poorly known what that would take, the rank of the rows decides."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.solve import auto
from pipeline.solve.auto import solve_auto
from pipeline.solve.newton_system import DIRECT_SIZE
from pipeline.solve.reduced import ReducedProblem


def clicks(n: int, d: int, fields: int, c: float) -> ReducedProblem:
    """Rows with a hashed word in each of some fields, a few words being in most rows; the labels are noisy."""
    rng = np.random.default_rng(3)
    words = (rng.random((n, fields)) ** 3 * d / fields).astype(int) + np.arange(fields) * (d // fields)
    y = np.where(rng.standard_normal(d)[words].sum(axis=1) + 2 * rng.standard_normal(n) > 0, 1.0, -1.0)
    x = sp.csr_matrix((np.full(n * fields, fields**-0.5), words.ravel(), np.arange(0, n * fields + 1, fields)), (n, d))
    return ReducedProblem(sp.csr_matrix(sp.diags(y) @ x), np.full(n, c), np.zeros(d))


@pytest.mark.parametrize(
    ("free", "dearer"), [(100, auto.UNDERSTATED), (4 * 2600, auto.UNDERSTATED), (4 * 2600 + 1, 1.0)]
)
def test_with_few_free_alphas_a_feature_newton_is_taken_to_be_dearer(free, dearer):
    d = 2600
    assert d > DIRECT_SIZE
    many = ReducedProblem(sp.eye(11_000, d, format="csr"), np.ones(11_000), np.zeros(d))
    assert auto._rule(many, free)[-1] == dearer
    few = ReducedProblem(sp.eye(11_000, 40, format="csr"), np.ones(11_000), np.zeros(40))
    assert auto._rule(few, free)[-1] == 1.0, "systems that are solved directly take what is predicted"


def test_click_logs_are_left_to_dcd(monkeypatch):
    asked = []
    monkeypatch.setattr(auto, "solve_newton", lambda *a: asked.append(a) or pytest.fail("newton was asked"))
    problem = clicks(20_000, 4_000, 8, 30.0)  # newton takes five times as long
    found = solve_auto(problem, None, 3e-5 * float(problem.u.sum()))
    assert (found.solver, found.converged) == ("dcd", True)


def test_where_time_is_over_the_gap_is_that_of_what_is_returned(monkeypatch):
    ticks = iter(range(10**6))
    monkeypatch.setattr(auto.time, "monotonic", lambda: float(next(ticks)))
    problem = clicks(2_000, 400, 8, 30.0)
    found = solve_auto(problem, None, 1e-12, seconds=20.0)
    assert found.outcome == "limit"
    np.testing.assert_allclose(found.w, problem.combine(found.alpha), atol=1e-9)
    assert found.gap == pytest.approx(problem.gap(found.w, found.alpha), rel=1e-9)
