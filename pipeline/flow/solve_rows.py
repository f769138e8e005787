"""Solve over the working set: all other rows are frozen at their alpha and folded into one vector.

    v = w_alpha - sum_W alpha_i z_i,    then the reduced problem over W from its present alpha.

If the working set does not fit into memory it is cut into blocks of consecutive rows, each solved for a few sweeps
against the others (block minimisation: Yu, Hsieh, Chang, Lin, "Large linear classification when data cannot fit in
memory", KDD 2010), round and round until the blocks' gaps, as they are met, sum up to the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from pipeline.budget import Projection
from pipeline.flow.working_rows import WorkingRows
from pipeline.maths.rounding import gamma
from pipeline.solve.choice import solve
from pipeline.solve.dcd import Descent, solve_dcd
from pipeline.solve.liblinear import liblinear_bytes
from pipeline.solve.reduced import ReducedProblem, Solution

MOST_CYCLES, SWEEPS_A_BLOCK = 5, 8
DENSE_SHARE = 0.5
Timer = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Pair:
    """w and w_alpha (the same array where they are equal), a bound on the rounding of w_alpha, and who found them."""

    w: np.ndarray
    w_alpha: np.ndarray
    drift: float
    solver: str


class RowSolver:
    """Solves over the rows that ``arrays.chosen`` marks and writes their alpha back."""

    def __init__(self, working: WorkingRows, solver: str, shrink: bool, budget: Projection) -> None:
        self.working, self.arrays, self.solver, self.shrink = working, working.arrays, solver, shrink
        self.budget = budget

    def solve(self, c: float, pair: Pair, target: float, clock: Timer) -> Pair:
        """Return the pair after solving to an absolute gap of ``target`` over the working set."""
        chosen = self.arrays.chosen
        if self.working.fits(chosen):
            with clock("gather"):
                self.working.hold(chosen)
                problem, start = self._problem(c, pair.w_alpha)
            with clock("solve"):
                return self._write_back(pair, problem, start, self._solve(problem, start, target), target)
        for _ in range(MOST_CYCLES):
            met = 0.0
            for block in self.working.blocks(chosen):
                with clock("gather"):
                    self.working.hold(block)
                    problem, start = self._problem(c, pair.w_alpha)
                with clock("solve"):
                    found, before = _few_sweeps(problem, start, target)
                    met += before
                    pair = self._write_back(pair, problem, start, found, math.inf)
            if met <= target:
                break
        self.working.release()
        return pair

    def _problem(self, c: float, w_alpha: np.ndarray) -> tuple[ReducedProblem, np.ndarray]:
        rows = self.working.rows
        start = self.arrays.alpha[rows]
        v = w_alpha.copy()
        self.working.add_to(v, -start)
        z = self.working.matrix()
        n, d = z.shape
        dense = n * d > 0 and z.nnz > DENSE_SHARE * n * d and 8 * n * d <= self.budget.newton
        u = c * self.arrays.costs[rows]
        return ReducedProblem(z.toarray().astype(np.float64) if dense else z, u, v), start

    def _solve(self, problem: ReducedProblem, start: np.ndarray, target: float) -> Solution:
        """Solve by the solver that was asked for, or by dcd where only that has room."""
        held = self.working.bytes
        tight = held > self.budget.newton
        if self.solver == "liblinear":
            tight = tight or held + liblinear_bytes(problem) > self.budget.room
        if self.solver == "dcd" or tight:
            return solve_dcd(problem, start, target, shrink=self.shrink, ray=False)
        return solve(problem, start, target, self.solver, ray=False)

    def _write_back(
        self, pair: Pair, problem: ReducedProblem, start: np.ndarray, found: Solution, target: float
    ) -> Pair:
        """Keep w = w_alpha unless only another w reaches the target."""
        rows = self.working.rows
        self.arrays.alpha[rows] = found.alpha
        w = found.w
        w_alpha = w if found.solver == "dcd" else problem.combine(found.alpha)
        if w is not w_alpha and problem.gap(w_alpha, found.alpha) <= max(target, found.gap):
            w = w_alpha
        norms = self.arrays.norms[rows]
        moved = float(norms @ start) + float(norms @ found.alpha)
        sizes = float(np.linalg.norm(pair.w_alpha)) + float(np.linalg.norm(w_alpha))
        drift = pair.drift + gamma(float(rows.size + 2)) * (moved + sizes)
        return Pair(w, w_alpha, drift, found.solver)


def _few_sweeps(problem: ReducedProblem, start: np.ndarray, target: float) -> tuple[Solution, float]:
    """Improve one block a little; return what was found and the block's gap before."""
    run = Descent(problem, start.copy(), shrink=True, seed=0, ray=False)
    before = run.exact_gap()
    if before > 0.0:
        run.advance(0.1 * target, math.inf, SWEEPS_A_BLOCK)
    gap = run.exact_gap()
    return Solution(run.alpha, run.w, gap, "limit", run.sweeps, "dcd"), before
