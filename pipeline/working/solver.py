"""Solve over the working set, wherever its rows are held: all other rows are frozen at their alpha (``solve_held``).

If the working set does not fit into memory it is cut into blocks of consecutive rows, each solved for a few sweeps
against the others (block minimisation: Yu, Hsieh, Chang, Lin, "Large linear classification when data cannot fit in
memory", KDD 2010), round and round until the blocks' gaps, as they are met, sum up to the target.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from pipeline.maths.rounding import gamma
from pipeline.working.rows import WorkingRows
from pipeline.working.solve import Method, Task

MOST_CYCLES = 5
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

    def __init__(self, working: WorkingRows, method: Method) -> None:
        self.working, self.arrays, self.method = working, working.arrays, method

    def solve(self, c: float, pair: Pair, target: float, clock: Timer) -> Pair:
        """Return the pair after solving to an absolute gap of ``target`` over the working set."""
        chosen = self.arrays.chosen
        if self.working.fits(chosen):
            with clock("gather"):
                self.working.hold(chosen)
            with clock("solve"):
                return self._solve(c, pair, target)[0]
        for _ in range(MOST_CYCLES):
            met = 0.0
            for block in self.working.blocks(chosen):
                with clock("gather"):
                    self.working.hold(block)
                with clock("solve"):
                    pair, before = self._solve(c, pair, target, a_block=True)
                    met += before
            if met <= target:
                break
        self.working.release()
        return pair

    def _solve(self, c: float, pair: Pair, target: float, a_block: bool = False) -> tuple[Pair, float]:
        """Solve over the rows held and write their alpha back; return a block's gap before, too."""
        rows = self.working.rows
        start, u = self.arrays.alpha[rows], c * self.arrays.costs[rows]
        found = self.working.host.solve(Task(start, u, pair.w_alpha, target, a_block, self.method))
        self.arrays.change_alpha()[rows] = found.alpha
        norms = self.arrays.norms[rows]
        moved = float(norms @ start) + 2 * float(norms @ found.alpha)  # twice: |v| <= |w_alpha| + sum alpha_i |z_i|
        sizes = float(np.linalg.norm(pair.w_alpha)) + float(np.linalg.norm(found.w_alpha))
        drift = pair.drift + gamma(float(rows.size + 2)) * (moved + sizes)
        w = found.w_alpha if found.apart is None else found.apart
        return Pair(w, found.w_alpha, drift, found.solver), found.gap_before
