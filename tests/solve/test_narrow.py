"""Fewer columns: the same inner products, so the same alphas; w comes back in all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import pipeline
from pipeline.solve import auto, narrow
from pipeline.solve.auto import solve_auto
from pipeline.solve.narrow import Narrowed, narrowed
from pipeline.solve.newton import solve_newton
from pipeline.solve.reduced import ReducedProblem


def wide(seed: int, n: int, d: int, a_row: int, dtype: Any, scale: float = 1.0) -> ReducedProblem:
    """Rows with a few common columns and many of their own, some of them empty; v is where rows that are folded are."""
    rng = np.random.default_rng(seed)
    z = np.zeros((n, d), dtype)
    for row in z:
        count = int(rng.integers(0, a_row + 1))
        places = np.concatenate([rng.integers(0, 5, 3), rng.integers(0, d, count)])[: count + 1]
        row[places] = scale * rng.normal(size=places.size)
    u = rng.uniform(0.1, 2.0, n) / scale**2
    return ReducedProblem(sp.csr_array(z), u, rng.normal(size=d) / scale)


def forced(problem: ReducedProblem, monkeypatch: pytest.MonkeyPatch) -> Narrowed | None:
    monkeypatch.setattr(narrow, "FAR_FEATURES", 0)
    monkeypatch.setattr(narrow, "WORTH", 100.0)
    return narrowed(problem)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(5, 60), st.integers(0, 20), st.sampled_from(["f4", "f8"]))
def test_inner_products_are_what_they_were(seed: int, n: int, d: int, a_row: int, dtype: str) -> None:
    problem = wide(seed, n, d, a_row, dtype)
    with pytest.MonkeyPatch.context() as patch:
        found = forced(problem, patch)
    assert found is not None
    plain, small = (each.z.scipy().toarray().astype(np.float64) for each in (problem, found.narrow))
    sizes = np.linalg.norm(plain, axis=1)
    np.testing.assert_allclose(
        small @ small.T, plain @ plain.T, rtol=0, atol=1e-12 * (1 + np.outer(sizes, sizes)).max()
    )
    reach = 1e-12 * (1 + sizes * np.linalg.norm(problem.v)).max()
    np.testing.assert_allclose(small @ found.narrow.known, plain @ problem.known, rtol=0, atol=reach)
    assert found.narrow.nnz <= problem.nnz
    assert found.narrow.z.shape[1] <= np.count_nonzero((plain != 0).sum(axis=0) > 1) + 2 * n


@given(st.integers(0, 10**6), st.sampled_from(["f4", "f8"]), st.sampled_from([1e-6, 1.0, 1e6]))
def test_solutions_are_those_of_the_problem(seed: int, dtype: str, scale: float) -> None:
    problem = wide(seed, 12, 200, 15, dtype, scale)
    target = 1e-9 * float(problem.u.sum())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow, "FAR_FEATURES", 0)
        patch.setattr(narrow, "WORTH", 100.0)
        made: list[Narrowed | None] = []
        patch.setattr(auto, "narrowed", lambda one: made.append(narrowed(one)) or made[-1])
        found = solve_auto(problem, None, target)
        assert made[0] is not None
        apart = solve_newton(made[0].narrow, None, target)
    assert found.converged and found.w.shape == problem.v.shape
    assert ((found.alpha >= 0) & (found.alpha <= problem.u)).all()
    # by the problem as it was given, whatever was solved instead
    slack = 1e-12 * float(problem.u.sum())
    assert problem.gap(found.w, found.alpha) <= target + slack
    assert (
        problem.gap(problem.combine(found.alpha), found.alpha) <= max(target, found.gap) + slack or not found.at_w_alpha
    )
    # newton's w is no sum of rows: what it is elsewhere comes back as well
    back = made[0].widened(apart)
    assert problem.gap(back.w, back.alpha) == back.gap
    assert back.gap <= max(target, apart.gap) + slack


def test_a_single_entry_keeps_its_value_and_zeros_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    z = sp.csr_array(np.array([[1.0, -3.0, 0, 0], [2.0, 0, 5.0, 12.0], [4.0, 0, 0, 0]], np.float32))
    z.data[z.data == 12.0] = 0.0  # an entry all the same
    found = forced(ReducedProblem(z, np.ones(3), np.array([7.0, 1.0, 2.0, 3.0])), monkeypatch)
    assert found is not None
    np.testing.assert_array_equal(found.narrow.z.toarray(), [[1, 3, 0], [2, 0, 5], [4, 0, 0]])
    np.testing.assert_array_equal(found.narrow.known, [7, -1, 2])


@pytest.mark.parametrize("value", [1e-160, 1e39, 1e160])
def test_squares_out_of_range_are_left_as_they_are(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    z = sp.csr_array(np.array([[1.0, value, 0.0], [1.0, 0.0, 1.0]]))
    assert forced(ReducedProblem(z, np.ones(2), np.zeros(3)), monkeypatch) is None
    assert forced(ReducedProblem(z[:, [0, 2]], np.ones(2), np.zeros(2)), monkeypatch) is not None


def test_only_where_there_is_something_to_gain() -> None:
    wide_rows = sp.random_array((50, 150_000), density=1e-4, rng=1, format="csr")
    few, shared = ReducedProblem(wide_rows[:, :1000], np.ones(50), np.zeros(1000)), np.ones((2, 150_000))
    assert narrowed(few) is None  # w is in the cache
    assert narrowed(ReducedProblem(sp.csr_array(shared), np.ones(2), np.zeros(150_000))) is None  # all columns are used
    found = narrowed(ReducedProblem(wide_rows, np.ones(50), np.zeros(150_000)))
    assert found is not None and found.narrow.z.shape[1] <= 100
    assert narrowed(ReducedProblem(shared, np.ones(2), np.zeros(150_000))) is None  # dense


def test_rows_in_fewer_columns_are_counted_before_they_are_made() -> None:
    wide_rows = sp.random_array((50, 150_000), density=1e-4, rng=1, format="csr")
    few, many = (ReducedProblem(wide_rows[:, :d], np.ones(50), np.zeros(d)) for d in (1000, 150_000))
    assert auto.SOLVER.bytes_beside(many, 1000) == auto.SOLVER.bytes_beside(few, 1000) + 1000


def test_with_many_rows_a_solve_that_is_soon_done_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "FEW_ROWS", 39)
    problem = wide(5, 40, 120_000, 15, "f8")
    made: list[Narrowed | None] = []
    monkeypatch.setattr(auto, "narrowed", lambda one: made.append(narrowed(one)) or made[-1])
    soon, late = solve_auto(problem, None, 10.0), solve_auto(problem, None, 1e-10)
    assert soon.converged and soon.iterations <= auto.WIDE_SWEEPS and late.converged
    assert len(made) == 1 and made[0] is not None, "only the second"
    for found, target in ((soon, 10.0), (late, 1e-10)):
        assert problem.gap(found.w, found.alpha) <= target + 1e-12 * float(problem.u.sum())
    monkeypatch.setattr(auto, "FEW_ROWS", 40)
    assert solve_auto(problem, None, 10.0).converged and len(made) == 2


def test_paths_are_certified_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    y = np.where(rng.random(300) < 0.5, 1, -1)
    common = rng.poisson(0.3, (300, 200)) + 0.5 * (y[:, None] > 0) * (rng.random((300, 200)) < 0.2)
    x = sp.csr_array(sp.hstack([common, sp.random_array((300, 120_000), density=2e-4, rng=rng)]), dtype=np.float32)
    made: list[Narrowed | None] = []
    monkeypatch.setattr(auto, "narrowed", lambda one: made.append(narrowed(one)) or made[-1])
    fewer = pipeline.fit_path(x, y, grid=[0.01, 0.1, 1.0], tol=1e-6)
    assert made and all(made)
    monkeypatch.setattr(auto, "narrowed", lambda one: None)
    plain = pipeline.fit_path(x, y, grid=[0.01, 0.1, 1.0], tol=1e-6)
    for one, other in zip(fewer.steps, plain.steps, strict=True):
        assert one.relative_gap <= 1e-6 and abs(one.primal - other.primal) <= 2e-6 * one.primal
        np.testing.assert_allclose(one.w, np.asarray((one.alpha * y) @ x), atol=1e-9)
