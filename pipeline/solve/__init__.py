"""Solvers of the reduced problem: one file a solver, each with an object that keeps ``contract.Solver``.

    auto       dcd, watched, and newton where that promises to be faster; in fewer columns where that pays (narrow)
    dcd        dual coordinate descent: sparse rows with many features
    newton     semismooth Newton: few features, or a small gap
    liblinear  LIBLINEAR, finished by auto where it stops early

A kernel's reduced problem is given by the Gram matrix of its rows, and has solvers of its own (``gram``).

To add one: a file here with ``SOLVER = <an object of a subclass of Solver>``, and its name in ``SOLVERS``. This module
imports none of them: the command line lists their names without loading compiled code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipeline.errors import SpecError, shown

if TYPE_CHECKING:
    from pipeline.solve.contract import Solver

SOLVERS = ("auto", "dcd", "newton", "liblinear")  # the modules, in the order in which they are offered
GRAM_SOLVERS = ("auto", "projected", "newton", "libsvm")  # those of ``gram``, likewise


def solver_named(name: str) -> Solver:
    """Return the solver of that name."""
    solver: Solver = object_named(name, SOLVERS, __name__)
    return solver


def object_named(name: str, names: tuple[str, ...], package: str) -> Any:
    """Return the ``SOLVER`` of a package's module if it is one of ``names``."""
    if name not in names:
        raise SpecError(f"unknown solver {shown(name)}; there are {', '.join(names)}")
    return import_module(f"{package}.{name}").SOLVER
