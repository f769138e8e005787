"""What a solver is.

    needs   any rows, sparse or dense, any box, any offset, and a start that may be infeasible
    check   ``check_costs``: some solvers cannot weigh rows one by one; said before a run, not in its midst
    bytes   ``bytes_beside``: what it takes beside the rows, so that what has no room is not begun
    run     ``run``: down to an absolute gap, the same bits from the same arguments however busy the machine is

Whatever it claims is checked: the path certifies what comes back over all rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from pipeline.solve.reduced import ReducedProblem, Solution


class Solver(ABC):
    """A solver; its module holds the one object there is as ``SOLVER``."""

    name: ClassVar[str]

    def check_costs(self, costs: np.ndarray) -> None:
        """Raise SpecError if rows of these costs cannot be solved for; rows of cost 0 are not trained on."""
        del costs

    @abstractmethod
    def bytes_beside(self, problem: ReducedProblem, held: int) -> int:
        """Return the bytes needed beside the ``held`` ones that the rows take."""

    @abstractmethod
    def run(
        self, problem: ReducedProblem, start: np.ndarray | None, target_gap: float, shrink: bool = True
    ) -> Solution:
        """Solve to an absolute gap from a start alpha. ``shrink`` is dcd's own heuristic, where dcd was asked for."""
