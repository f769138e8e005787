"""What a solver of a kernel's reduced problem is; as ``solve.contract``, but that the problem is a Gram matrix.

needs   any box, any fold, a Gram matrix that may be singular, and a start that may be infeasible
bytes   ``bytes_beside``: what it takes beside the Gram matrix, so that what has no room is not begun
run     ``run``: down to an absolute gap, the same bits from the same arguments if BLAS has one thread
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from pipeline.solve.gram.problem import GramProblem, GramSolution


class GramSolver(ABC):
    """A solver; its module holds the one object there is as ``SOLVER``."""

    name: ClassVar[str]

    @abstractmethod
    def bytes_beside(self, n: int) -> int:
        """Return the bytes needed beside a Gram matrix of n rows."""

    @abstractmethod
    def run(self, problem: GramProblem, start: np.ndarray | None, target_gap: float) -> GramSolution:
        """Solve to an absolute gap from a start alpha."""
