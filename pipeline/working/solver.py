"""Solve over the working set, wherever its rows are held: all other rows are frozen at their alpha (``solve``).

If the working set does not fit into memory it is cut into blocks, each solved for a few sweeps against the others
(block minimisation: Yu, Hsieh, Chang, Lin, "Large linear classification when data cannot fit in memory", KDD 2010),
round and round until the blocks' gaps, as they are met, promise the target.

Blocks are other ones each time. w is far off when the first blocks of a cycle are solved, so that their rows go too
far, and what has to make up for it is in all the others. Met again with the same rows as before they go back only as
far as these let them, and cycles crawl; met with rows from everywhere they are put right by the second cycle. (In
130 blocks of url-like rows, from 10 to 25 C_min: gaps of 4.7e-3 and 9.6e-5 after one and two cycles; over the same
blocks of consecutive rows 4.0e-3, 2.4e-3 and, after eight, 1.1e-3.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.rounding import gamma
from pipeline.working.lead import Lead
from pipeline.working.rows import WorkingRows
from pipeline.working.solve import Method, Task
from pipeline.working.state import ByRow, frozen

MOST_CYCLES = 5  # over blocks of rows that do not fit together, before a pass looks at all
Timer = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class LinearPair:
    """A feasible alpha of all rows, w_alpha and w (the same array where they are equal), and who found them.

    ``drift`` bounds |w_alpha - sum alpha_i z_i|. alpha is written while the pair is made, and never after.
    """

    alpha: ByRow
    w: np.ndarray
    w_alpha: np.ndarray
    drift: float
    solver: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", frozen(self.alpha))


class RowSolver:
    """Solves over some rows, with the others frozen."""

    def __init__(self, working: WorkingRows, method: Method) -> None:
        self.working, self.state, self.method = working, working.state, method
        self._orders = math.nan, np.random.default_rng(0)

    def solve(
        self, c: float, pair: LinearPair, chosen: ByRow, target: float, clock: Timer, lead: Lead | None = None
    ) -> LinearPair:
        """Return the pair after solving to an absolute gap of ``target`` over the rows that ``chosen`` marks."""
        alpha = self.state.copied(pair.alpha)
        facts = alpha, self.state.costs
        if self.working.fits(chosen):
            with clock("gather"):
                known = self.working.hold(chosen, *facts, *(() if lead is None else (lead.ref, lead.before)))
            with clock("solve"):
                ahead = None if lead is None else lead.at(c, known[1], *known[2:])
                return self._solve(c, pair, alpha, target, known[:2], ahead)[0]
        order, last = self._order(c), 0.0
        for _ in range(MOST_CYCLES):
            met = 0.0
            for block in self.working.blocks(chosen, order):
                with clock("gather"):
                    known = self.working.hold(block, *facts)
                with clock("solve"):
                    pair, before = self._solve(c, pair, alpha, target, known, a_block=True)
                    met += before
            if met * min(1.0, met / last if last > 0.0 else 1.0) <= target:  # once more as much less
                break
            last = met
        self.working.release()
        return pair

    def _order(self, c: float) -> np.random.Generator:
        """Return what blocks are shuffled by: the same for the same steps at C, whatever was solved before."""
        if self._orders[0] != c:
            self._orders = c, np.random.default_rng(0)
        return self._orders[1]

    def _solve(
        self,
        c: float,
        pair: LinearPair,
        alpha: ByRow,
        target: float,
        known: tuple[np.ndarray, ...],
        lead: np.ndarray | None = None,
        a_block: bool = False,
    ) -> tuple[LinearPair, float]:
        """Solve over the rows held and write their alpha; return the pair with all of it, and a block's gap before.

        ``known`` are alpha and costs of these rows, ``lead`` where alphas may be expected.
        """
        rows, (start, costs) = self.working.rows, known
        found = self.working.host.solve(Task(start, lead, c * costs, pair.w_alpha, target, a_block, self.method))
        self.state.put(rows, alpha, found.alpha)
        sizes = float(np.linalg.norm(pair.w_alpha)) + float(np.linalg.norm(found.w_alpha))
        drift = pair.drift + gamma(float(rows.size + 2)) * (found.moved + sizes)
        w = found.w_alpha if found.apart is None else found.apart
        made = replace(pair, alpha=alpha, w=w, w_alpha=found.w_alpha, drift=drift, solver=found.solver)
        return made, found.gap_before
