"""The choice between projected and newton, made afresh for each problem.

projected is quicker by far where Q is far from singular (dna at a gamma of 10/d: 3 rounds against 10 steps of newton,
each a system of a thousand rows) and of no use where it is not (satimage at 1/d: nine steps of a path in ten are cut to
a twentieth or less). So it goes first unless more than two in five of the rows that can move start from a bound: these
are rows about to change sides, the systems are then large, and its steps are cut short. And it hands over as soon as
a step is cut to a twentieth, or after 15 rounds.

CPU seconds of whole paths (C times 1.05 a step, relative gap 1e-5): this choice, newton alone
    bcd 10/d 0.10, 0.22; digit1 10/d 0.28, 0.45; dna 1/d 1.2, 1.8; dna 10/d 3.1, 10.6; others equal to within noise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.solve.gram.contract import GramSolver
from pipeline.solve.gram.newton import solve_gram_newton
from pipeline.solve.gram.problem import GramProblem, GramSolution
from pipeline.solve.gram.projected import Rounds
from pipeline.solve.gram.system import system_bytes

# Measured on paths of four data sets at three gammas; a share of 0.8 or steps of 0.2 did little worse:
SHARE_INSIDE, SHORTEST, ROUNDS = 0.6, 0.05, 15


def solve_gram_auto(problem: GramProblem, start: np.ndarray | None = None, target_gap: float = 0.0) -> GramSolution:
    """Solve to an absolute gap from any start alpha."""
    first = Rounds(problem, problem.feasible(start))
    rows = first.movable
    inside = np.count_nonzero((first.alpha[rows] > 0.0) & (first.alpha[rows] < problem.u[rows]))
    is_promising = inside >= SHARE_INSIDE * rows.size
    if first.solve(target_gap, ROUNDS if is_promising else 0, SHORTEST) == "converged":
        return GramSolution(first.alpha, first.gap, "converged", first.rounds, "projected")
    second = solve_gram_newton(problem, first.best, target_gap)
    return replace(second, iterations=first.rounds + second.iterations)


class GramAuto(GramSolver):
    """projected where that is promising, newton elsewhere and where it was not."""

    name = "auto"

    def bytes_beside(self, n: int) -> int:
        """Count one system: there are never two at a time."""
        return system_bytes(n)

    def run(self, problem: GramProblem, start: np.ndarray | None, target_gap: float) -> GramSolution:
        """Solve."""
        return solve_gram_auto(problem, start, target_gap)


SOLVER = GramAuto()
