"""Solve over rows in memory, all others folded into one vector: what runs where the rows are held.

v = w_alpha - sum_W alpha_i z_i is known by w_alpha and the alphas that it is at; from these the reduced problem over
the rows W is solved.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.budget import Projection
from pipeline.dataclass import dataclass
from pipeline.solve import solver_named
from pipeline.solve.dcd import Descent
from pipeline.solve.reduced import ReducedProblem, Solution
from pipeline.working.held import HeldRows
from pipeline.working.lead import towards

SWEEPS_A_BLOCK = 8  # a plain choice: enough to be worth reading the block, few enough not to overfit w to it
DENSE_ABOVE = 0.5  # share of nonzeros: from there on 8 bytes a cell are fewer than 12 a nonzero, and BLAS is quicker


@dataclass(frozen=True)
class Method:
    """The solver that was asked for, dcd's heuristic, and the memory there is."""

    solver: str
    shrink: bool
    budget: Projection


@dataclass(frozen=True)
class Task:
    """From alpha = ``start`` of the rows held, in their box ``u``, to an absolute gap of ``target``.

    ``lead`` is where alpha is expected, if anywhere. A block among others (``a_block``) gets a few sweeps only.
    """

    start: np.ndarray
    lead: np.ndarray | None
    u: np.ndarray
    w_alpha: np.ndarray
    target: float
    a_block: bool
    method: Method


@dataclass(frozen=True)
class SolvedRows:
    """alpha of the rows held, the new w_alpha, w where that is another vector, and a block's gap before.

    ``moved`` is what rounding of w_alpha is measured by: sum alpha_i |z_i| as it was, and twice as it is, which is no
    less than a sum from v, |v| <= |w_alpha| + sum alpha_i |z_i|, or one of what alpha moved by, takes.
    """

    alpha: np.ndarray
    w_alpha: np.ndarray
    apart: np.ndarray | None
    solver: str
    gap_before: float = math.nan
    moved: float = math.nan


def solve_held(held: HeldRows, task: Task) -> SolvedRows:
    """Solve over the rows held. They and the task settle every bit of what is found."""
    problem = _problem(held, task)
    if task.a_block:
        return _few_sweeps(problem, task)
    found = _solve(held.bytes, problem, _begin(held, task), task)
    if found.at_w_alpha:
        return SolvedRows(found.alpha, found.w, None, found.solver)
    w_alpha = problem.combine(found.alpha)
    good_enough = problem.gap(w_alpha, found.alpha) <= max(task.target, found.gap)
    return SolvedRows(found.alpha, w_alpha, None if good_enough else found.w, found.solver)


def _problem(held: HeldRows, task: Task) -> ReducedProblem:
    z = held.matrix()
    n, d = z.shape
    dense = n * d > 0 and z.nnz > DENSE_ABOVE * n * d and 8 * n * d <= task.method.budget.newton
    return ReducedProblem(z.toarray() if dense else z, task.u, task.w_alpha, task.start)


def _begin(held: HeldRows, task: Task) -> np.ndarray:
    """Return the alpha that the solver begins with: w_alpha goes by ``move`` on the way from start to lead."""
    if task.lead is None:
        return task.start
    change, move = task.lead - task.start, np.zeros_like(task.w_alpha)
    held.add_to(move, change)
    return towards(task.start, task.lead, float(change.sum() - task.w_alpha @ move), float(move @ move))


def _solve(held_bytes: int, problem: ReducedProblem, begin: np.ndarray, task: Task) -> Solution:
    """Solve by the solver that was asked for, or by dcd where only that has room."""
    how = task.method
    solver = solver_named(how.solver)
    if held_bytes + solver.bytes_beside(problem, held_bytes) > how.budget.room:
        solver = solver_named("dcd")
    return solver.run(problem, begin, task.target, how.shrink)


def _few_sweeps(problem: ReducedProblem, task: Task) -> SolvedRows:
    """Improve one block a little."""
    run = Descent(problem, task.start.copy(), shrink=True, seed=0)
    before = run.exact_gap()
    if before > 0.0:
        run.advance(0.1 * task.target, math.inf, SWEEPS_A_BLOCK)
    run.exact_gap()
    return SolvedRows(run.seen, run.w, None, "dcd", before)
