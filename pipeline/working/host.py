"""Where the rows that are being solved for are held, and the solver runs: in this process, or on a worker.

A host is asked for little (which rows, their alpha and box, w_alpha) and answers with as little: the rows themselves
stay with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from pipeline.cores import lending
from pipeline.working.held import HeldRows
from pipeline.working.solve import SolvedRows, Task, solve_held


class RowHost(Protocol):
    """Holds rows, and does what needs them; ``read`` counts the nonzeros that it read for that."""

    read: int

    def hold(self, wanted: np.ndarray, lengths: np.ndarray | None = None) -> None:
        """Hold exactly the rows with these numbers, which ascend and have these lengths."""
        ...

    def release(self) -> None:
        """Forget all rows."""
        ...

    def add_to(self, out: np.ndarray, coefficients: np.ndarray) -> None:
        """Add sum a_i z_i over the rows held to ``out``."""
        ...

    def solve(self, task: Task) -> SolvedRows:
        """Solve over the rows held."""
        ...


class LocalHost(HeldRows):
    """Holds and solves in this process."""

    def solve(self, task: Task) -> SolvedRows:
        """Solve over the rows held."""
        with lending(self.engine.cores_here):
            found = solve_held(self, task)
        return replace(found, moved=float(self.norms @ task.start) + 2 * float(self.norms @ found.alpha))
