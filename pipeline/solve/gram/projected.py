"""Projected Newton: few rounds where the start is nearly right and the Gram matrix far from singular.

Problem: see ``problem``. With the gradient g = f - 1 of -D, a round takes the rows F that can move (inside the box, or
at a bound that g pushes them away from), solves

    (Q_FF + ridge) d = -g_F

and goes to the best point of the clipped ray clip(alpha + t d, 0, u), t > 0. Rows of F at a bound that d would push out
stay there, and the dual still rises (Bertsekas 1982, proposition 1: for these g_i d_i >= 0). Many rows join and leave F
in a round, where an active set method takes one at a time.

It is slow where Q is nearly singular (a small gamma): d is then many times the box, most rows reach a bound at a small
t, and what is left of d leads nowhere. A ridge that grows and shrinks with t made it slower still (measured).
"""

from __future__ import annotations

import numpy as np

from pipeline.solve.gram.contract import GramSolver
from pipeline.solve.gram.kernels import add_columns, clipped_search, movable
from pipeline.solve.gram.problem import GramProblem, GramSolution
from pipeline.solve.gram.system import GramSystems, mean_diagonal, system_bytes

# Plain choices; a worse one costs rounds, never the answer:
RIDGE = 1e-9  # of the mean diagonal
SHARE_FOR_SYSTEM = 0.25  # of the gap that is asked for: what a system's residual may leave, if no row meets its bound
ROUNDS = 200  # at most: where it takes more than 15, newton is faster


def solve_projected(problem: GramProblem, start: np.ndarray | None = None, target_gap: float = 0.0) -> GramSolution:
    """Solve to an absolute gap from any start alpha."""
    run = Rounds(problem, problem.feasible(start))
    outcome = run.solve(target_gap, ROUNDS)
    if outcome == "converged":
        return GramSolution(run.alpha, run.gap, outcome, run.rounds, "projected")
    gap = problem.gap(run.best, problem.margins(run.best))
    return GramSolution(run.best, gap, outcome if np.isfinite(gap) else "failed", run.rounds, "projected")


class Rounds:
    """The state of one solve: alpha, its margins f, which are added to, its gap, and the alpha of the least gap yet."""

    def __init__(self, problem: GramProblem, alpha: np.ndarray) -> None:
        self.problem, self.square = problem, problem.square
        self.systems, self.ridge = GramSystems(self.square, alpha.size), RIDGE * mean_diagonal(problem.q)
        self.listed = np.empty(alpha.size + 1, dtype=np.int64)
        self.rounds, self.least = 0, np.inf
        self.alpha = self.best = alpha
        self._look(problem.margins(alpha))

    @property
    def movable(self) -> np.ndarray:
        """The rows that can move."""
        return self.listed[: movable(self.f, self.alpha, self.problem.u, self.listed)]

    def solve(self, target_gap: float, most_rounds: int, shortest: float = 0.0) -> str:
        """Run rounds; return the outcome. It is "limit" after a round that ends at a t below ``shortest``, too.

        Where it is "converged", alpha's margins were summed afresh.
        """
        outcome = ""
        while True:
            if self.gap <= target_gap:
                self._look(self.problem.margins(self.alpha))
            if self.gap <= target_gap:
                return "converged"
            if outcome or self.rounds == most_rounds:
                return outcome or "limit"
            with np.errstate(over="ignore", invalid="ignore"):
                outcome = self._advance(target_gap, shortest)

    def _look(self, f: np.ndarray) -> None:
        """Take f as alpha's margins."""
        self.f, self.gap = f, self.problem.gap(self.alpha, f)
        if self.gap < self.least:
            self.least, self.best = self.gap, self.alpha

    def _advance(self, target_gap: float, shortest: float) -> str:
        """Run a round; return how the solve ended, or nothing."""
        self.rounds += 1
        rows = self.movable
        if rows.size == 0:
            return "stalled"
        old, u, gradient = self.alpha[rows], self.problem.u[rows], self.f[rows] - 1.0
        room = SHARE_FOR_SYSTEM * target_gap
        step, image = self.systems.solve(rows, self.ridge, -gradient, lambda left: float(u @ np.abs(left)) <= room)
        if not np.all(np.isfinite(step)):
            return "failed"
        t, gain = clipped_search(self.square, rows, step, image, old, u, gradient)
        new = np.clip(old + t * step, 0.0, u)
        moved = np.flatnonzero(new != old)
        if moved.size == 0 or not gain > 0.0:
            return "stalled"
        self.alpha = self.alpha.copy()
        self.alpha[rows] = new
        add_columns(self.square, rows[moved], new[moved] - old[moved], self.f)
        self._look(self.f)
        return "limit" if t < shortest else ""


class Projected(GramSolver):
    """projected alone."""

    name = "projected"

    def bytes_beside(self, n: int) -> int:
        """Count one system."""
        return system_bytes(n)

    def run(self, problem: GramProblem, start: np.ndarray | None, target_gap: float) -> GramSolution:
        """Solve."""
        return solve_projected(problem, start, target_gap)


SOLVER = Projected()
