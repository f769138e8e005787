"""Solvers of a kernel's reduced problem, which is given by a Gram matrix: one file a solver, as in ``solve``.

    auto       projected where few rows change sides, newton where many do or projected's steps are cut short
    projected  projected Newton: a few rounds from a start that is nearly right
    newton     semismooth Newton on the augmented Lagrangian: from any start, on any matrix
    libsvm     LIBSVM (scikit-learn's SVC), finished by auto where it stops early

To add one: a file here with ``SOLVER = <an object of a subclass of GramSolver>``, and its name in ``GRAM_SOLVERS``.
"""

from __future__ import annotations

from pipeline.solve import GRAM_SOLVERS, object_named
from pipeline.solve.gram.contract import GramSolver
from pipeline.solve.gram.problem import GramProblem, GramSolution

__all__ = ["GRAM_SOLVERS", "GramProblem", "GramSolution", "GramSolver", "gram_solver_named"]


def gram_solver_named(name: str) -> GramSolver:
    """Return the solver of that name."""
    solver: GramSolver = object_named(name, GRAM_SOLVERS, __name__)
    return solver
