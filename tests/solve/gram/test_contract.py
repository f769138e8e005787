"""Every solver of a Gram matrix keeps its contract, and every one that is there is offered."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import SpecError
from pipeline.solve import gram
from pipeline.solve.gram import GRAM_SOLVERS, GramProblem, GramSolver, gram_solver_named
from pipeline.solve.reduced import ReducedProblem
from tests.maths.problems import make_problem


def test_the_folder_and_the_list_agree():
    here = Path(gram.__file__).parent
    found = [path.stem for path in here.glob("*.py") if "\nSOLVER = " in path.read_text()]
    assert sorted(found) == sorted(GRAM_SOLVERS)


@pytest.mark.parametrize("name", GRAM_SOLVERS)
def test_a_solver_keeps_its_contract(name):
    solver = gram_solver_named(name)
    assert isinstance(solver, GramSolver)
    assert solver.name == name
    assert import_module(f"pipeline.solve.gram.{name}").SOLVER is solver
    made = make_problem(3, 150, 8, "shifted", 0.0)
    problem = GramProblem(made.z @ made.z.T, np.full(150, 20 * made.c_min), made.z @ np.full(8, 0.1))
    before = problem.q.copy()
    target = 1e-6 * float(problem.u.sum())
    start = 2 * problem.u  # infeasible: the solver's to put right
    found = solver.run(problem, start, target)
    assert found.converged
    assert found.gap == problem.gap(found.alpha, problem.margins(found.alpha)) <= target
    assert np.all((found.alpha >= 0) & (found.alpha <= problem.u))
    np.testing.assert_array_equal(solver.run(problem, start, target).alpha, found.alpha)
    np.testing.assert_array_equal(problem.q, before)
    np.testing.assert_array_equal(start, 2 * problem.u)
    assert solver.bytes_beside(150) >= 150**2 * 8


def test_unknown_solvers_are_refused():
    for name in ("magic", "contract", "dcd", "", None):
        with pytest.raises(SpecError, match=r"unknown solver .*; there are auto, projected, newton, libsvm"):
            gram_solver_named(name)


class TestProblem:
    """The problem itself: the same margins and gap as with rows, from any layout."""

    def test_margins_and_gap_are_those_of_the_reduced_problem(self):
        rng = np.random.default_rng(1)
        z, v, u = rng.standard_normal((40, 6)), rng.standard_normal(6), rng.random(40)
        problem, reduced = GramProblem(z @ z.T, u, z @ v), ReducedProblem(z, u, v)
        for alpha in (np.zeros(40), u, u * (rng.random(40) < 0.3)):
            w = reduced.combine(alpha)
            f = problem.margins(alpha)
            np.testing.assert_allclose(f, z @ w, atol=1e-12)
            assert problem.gap(alpha, f) == pytest.approx(reduced.gap(w, alpha), rel=1e-10)

    @pytest.mark.parametrize("n", [0, 1, 2, 5, 7])
    @pytest.mark.parametrize("layout", ["own", "corner", "columns", "middle"])
    def test_the_matrix_may_be_a_part_of_another(self, n, layout):
        rng = np.random.default_rng(n)
        large = rng.standard_normal((12, 12))
        large += large.T
        q = {
            "own": large[:n, :n].copy(),
            "corner": large[:n, :n],
            "columns": large[:n, :n].T,
            "middle": large[3 : 3 + n, 3 : 3 + n],
        }[layout]
        problem = GramProblem(q, np.ones(n), np.full(n, 0.5))
        alpha = rng.random(n)
        np.testing.assert_allclose(problem.margins(alpha), q @ alpha + 0.5, atol=1e-12)

    def test_what_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match="2 by 2"):
            GramProblem(np.eye(3), np.ones(2), np.ones(2))
        with pytest.raises(ValueError, match="2 margins"):
            GramProblem(np.eye(2), np.ones(2), np.ones(3))
        with pytest.raises(ValueError, match="finite"):
            GramProblem(np.eye(2), np.array([1.0, np.inf]), np.ones(2))
        with pytest.raises(ValueError, match="float64"):
            GramProblem(np.eye(2, dtype=np.float32), np.ones(2), np.ones(2))
        with pytest.raises(ValueError, match="one piece"):
            GramProblem(np.eye(4)[::2, ::2], np.ones(2), np.ones(2))
