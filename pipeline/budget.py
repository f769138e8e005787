"""Memory as a promise: what a run may use is projected before it starts, kept to while it runs, and measured.

Counted is anonymous memory (RssAnon) of the whole process group. Memory-mapped files do not count: the system can take
their pages back at any time. So shards are free, and so are the arrays with one entry a row once they lie in scratch
files. For n rows, d features and P processes the projection is

    P x BASE                      Python, libraries, compiled code
    VECTORS x 8 d                 w, its predecessor, the fold, the solver's copy, a product's second vector, the model
    ROW_BYTES x n, or 0           alpha, margins, norms ... in memory, or in scratch files
    workers x BATCH               what a pass holds of its shards' results
    the rest                      the working set: rows being solved for, twice while they are exchanged, and what the
                                  solver adds to them
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import BudgetError

BASE = 150_000_000
VECTORS = 7
ROW_BYTES = 80
BATCH = 8_000_000
SHARE_OF_MACHINE = 0.5
SHARE_FOR_ROW_ARRAYS = 0.2
LEAST_WORKING_SET = 16_000_000
COPIES, COPIES_NEWTON = 2.5, 5.0


@dataclass(frozen=True)
class Projection:
    """How a budget is divided: bytes for each part, and whether arrays by row go to scratch files."""

    budget: int
    base: int
    vectors: int
    row_arrays: int
    passes: int
    scratch: bool

    @property
    def room(self) -> int:
        """What is left for the working set and its solver."""
        return self.budget - self.base - self.vectors - self.row_arrays - self.passes

    @property
    def working_set(self) -> int:
        """How large the rows being solved for may be: dcd adds little to them, their exchange doubles them."""
        return int(self.room / COPIES)

    @property
    def newton(self) -> int:
        """How large rows may be that newton solves for, with its scaled, transposed and multiplied copies."""
        return int(self.room / COPIES_NEWTON)


def project(n_rows: int, n_features: int, budget: int, workers: int = 1, processes: int = 1) -> Projection:
    """Divide a budget, or say with both numbers that the job cannot fit."""
    row_arrays = ROW_BYTES * n_rows
    scratch = row_arrays > SHARE_FOR_ROW_ARRAYS * budget
    found = Projection(
        budget=budget,
        base=BASE * processes,
        vectors=VECTORS * 8 * n_features,
        row_arrays=0 if scratch else row_arrays,
        passes=BATCH * workers,
        scratch=scratch,
    )
    least = budget - found.room + LEAST_WORKING_SET
    if budget < least:
        raise BudgetError(
            f"{n_rows:,} rows and {n_features:,} features need at least {least / 1e6:,.0f} MB, "
            f"but the budget is {budget / 1e6:,.0f} MB; raise --memory"
        )
    return found


def default_budget() -> int:
    """Return half of the machine's memory, or of what its control group allows."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue
    return int(SHARE_OF_MACHINE * total)
