"""Every solver keeps its contract, and every one that is there is offered."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from pipeline import solve
from pipeline.errors import SpecError
from pipeline.solve import SOLVERS, solver_named
from pipeline.solve.contract import Solver
from pipeline.solve.newton import solve_newton
from pipeline.solve.reduced import ReducedProblem
from tests.maths.problems import make_problem


def test_the_folder_and_the_list_agree():
    here = Path(solve.__file__).parent
    found = [path.stem for path in here.glob("*.py") if "\nSOLVER = " in path.read_text()]
    assert sorted(found) == sorted(SOLVERS)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_keeps_its_contract(name):
    solver = solver_named(name)
    assert isinstance(solver, Solver)
    assert solver.name == name
    assert import_module(f"pipeline.solve.{name}").SOLVER is solver
    made = make_problem(3, 150, 8, "shifted", 0.0)
    problem = ReducedProblem(made.z, np.full(150, 20 * made.c_min), np.full(8, 0.1))
    target = 1e-6 * float(problem.u.sum())
    start = 2 * problem.u  # infeasible: the solver's to put right
    found = solver.run(problem, start, target)
    assert found.converged
    assert problem.gap(found.w, found.alpha) <= target * (1 + 1e-6)
    assert np.all((found.alpha >= 0) & (found.alpha <= problem.u))
    if found.at_w_alpha:
        np.testing.assert_allclose(found.w, problem.combine(found.alpha), rtol=1e-12, atol=1e-14)
    again = solver.run(problem, start, target)
    np.testing.assert_array_equal(again.w, found.w)
    np.testing.assert_allclose(found.w, solve_newton(problem, None, 0.0).w, atol=2 * np.sqrt(2 * target))


@pytest.mark.parametrize(("name", "least"), [("auto", 4000), ("dcd", 0), ("newton", 4000), ("liblinear", 4000)])
def test_bytes_beside_the_rows(name, least):
    problem = ReducedProblem(np.ones((2, 3)), np.ones(2), np.zeros(3))
    assert solver_named(name).bytes_beside(problem, 1000) >= least
    large = ReducedProblem(np.ones((1000, 3)), np.ones(1000), np.zeros(3))
    assert solver_named("liblinear").bytes_beside(large, 1000) > 16 * large.nnz


@pytest.mark.parametrize("name", SOLVERS)
def test_who_can_weigh_rows_one_by_one(name):
    even, uneven = np.array([2.0, 0.0, 2.0]), np.array([2.0, 0.0, 3.0])
    solver_named(name).check_costs(even)
    if name == "liblinear":
        with pytest.raises(SpecError, match="LIBLINEAR cannot weigh rows one by one; use --solver auto, dcd or newton"):
            solver_named(name).check_costs(uneven)
    else:
        solver_named(name).check_costs(uneven)


def test_unknown_solvers_are_refused():
    for name in ("magic", "contract", "", None):
        with pytest.raises(SpecError, match=r"unknown solver .*; there are auto, dcd, newton, liblinear"):
            solver_named(name)
