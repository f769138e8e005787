"""Memory as a promise: what a run may use is projected before it starts, kept to while it runs, and measured.

Counted is anonymous memory (RssAnon) of the whole process group. Memory-mapped files do not count: the system can take
their pages back at any time. So shards are free, and so are the arrays with one entry a row once they lie in scratch
files. For n rows and d features the projection is

    BASE                          Python, libraries, compiled code (and, the first time, the compiler)
    VECTORS x 8 d                 w and w_alpha of two points, the signs', sum c_i z_i, and what the solver combines
    ROW_BYTES x n, or MASKS x n   alpha, margins, norms ... in memory, or in scratch files but for a few masks
    SHARE_FOR_WORKERS of the rest what passes hold of their results, and worker processes where there are any
    what is left                  the working set: rows being solved for, twice while they are exchanged, and what the
                                  solver adds to them

The working set depends on the budget and the data alone: on other workers, or more of them, a run takes the same steps.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pipeline.dataclass import dataclass
from pipeline.errors import BudgetError

# Measured (``python -m tests.bench.calibrate``; tests/path/test_memory.py holds a run to the sum of all these):
# A process after a small path: 66 MB; 178 to 209 MB where it had to compile. A model that is written while the next
# step is solved for takes up to 48 MB of it.
BASE = 200_000_000
WORKER = 160_000_000  # the same of a process that makes passes only
# Counted in the code:
# w and w_alpha of the last point and of this one, the last signs', sum c_i z_i, and five for the solver: dcd has four;
# newton, which has more, came to 11 in all at 4 million features, with its copies of rows, in steps of one round:
VECTORS = 11
ROW_BYTES = 120  # facts 23, two points with their pairs 64, alpha and margins before 16, expected 8, one more pair 8
# and where certificates read less than all rows (``path.asleep``):
KNOWN_VECTORS = 8  # the base's w, w_alpha, signs and w before, D and its inverse, what is left of an estimated vector
KNOWN_ROW_BYTES = 44  # |z_i/D| 8, the base's products 32, or 24 without w_alpha, masks 4
# and where steps may start from models of other runs: beside the last point and the new one, such a one and one kept
CARRIED_VECTORS, CARRIED_ROW_BYTES, CARRIED_KERNEL_ROW_BYTES = 6, 64, 150
MASKS = 4  # of them in memory at once while the others are in scratch files: bytes, one a row
COPIES = 2.5  # the rows, those that they are exchanged for, and half as much for what dcd adds
COPIES_NEWTON = 5.0  # the rows, and newton's copies: scaled, by column, multiplied, in float64 whatever they are in
# Plain choices:
BATCH, BATCH_FROM_AFAR = 8_000_000, 60_000_000  # a worker's results on their way: of a million rows; with copies
SHARE_OF_MACHINE = 0.5  # the default budget: the other half is the page cache's, which has the shards
SHARE_FOR_ROW_ARRAYS = 0.1  # of the budget: more of them go to scratch files, and the working set gets their room
SHARE_FOR_KNOWN = 0.25  # of what is above the least, at most: else every certificate reads every row
SHARE_FOR_WORKERS = 0.2  # of what is left: the same share whatever the workers are, so that steps do not depend on them
# With a kernel, counted in the code:
KERNEL_ROW_BYTES = 308  # facts 39, two points with their pairs 150, sums under way 90, those before and expected 24
KERNEL_MASKS = 60  # of them in memory at once while the others are in scratch files: coefficients of four sums, masks
PASSING, PASSING_ROW_BYTES = 9_000_000, 128  # a worker's block of columns that are not kept; four sums, two at a time
GATHERED = 40_000_000  # the rows of the columns of one pass, and a block of them laid out
GRAM_COPIES = 5  # the working rows' Gram matrix, that before it, its factor, and the solver's part of it
# and plain choices:
LEAST_WORKING_ROWS, MOST_WORKING_ROWS = 300, 3000  # more take longer to solve for than to ask for later,
MOST_FREE_ROWS = 8000  # unless so many are free: then asking for some at a time takes tens of rounds (a9a at C > 10^3)
# Room for free rows goes before room for columns: a column that is not kept is made again, but free rows without room
# take more rounds. On 12,000 rows of a9a, 1,500 free, with room for 1,100 of them and all columns: 2.0 s of CPU a step;
# for all of them and all, 84 % or 40 % of the columns: 1.3 s. magic and shuttle, with few free rows, take 1.05 times as
# long with half of the columns that they had, mushrooms 1.1 to 1.2 times (on a busy machine).
SHARE_FOR_GRAM = 0.5
LEAST_WORKING_SET = 16_000_000  # with less a run would read the data again and again: refused instead


@dataclass(frozen=True)
class Projection:
    """How a budget is divided, in bytes, and whether arrays by row go to scratch files.

    ``reads_less``: what certificates that read less than all rows need is part of it.
    """

    budget: int
    base: int
    vectors: int
    row_arrays: int
    scratch: bool
    reads_less: bool = False

    @property
    def room(self) -> int:
        """What is left for the working set and its solver."""
        return int((self.budget - self.base - self.vectors - self.row_arrays) * (1 - SHARE_FOR_WORKERS))

    @property
    def working_set(self) -> int:
        """How large the rows being solved for may be: dcd adds little to them, their exchange doubles them."""
        return int(self.room / COPIES)

    @property
    def newton(self) -> int:
        """How large rows may be that newton solves for, with its scaled, transposed and multiplied copies."""
        return int(self.room / COPIES_NEWTON)

    def used(self, n_rows: int, rows: int) -> int:
        """What of the machine's memory is used at most if all rows take ``rows`` bytes, scratch files included."""
        arrays = max(self.row_arrays, (ROW_BYTES + KNOWN_ROW_BYTES) * n_rows)
        return self.base + self.vectors + arrays + min(self.room, int(COPIES * rows))

    def on_worker(self, rows: int) -> int:
        """What a process needs that does nothing but hold and solve for some of ``rows`` bytes of rows."""
        return self.base + self.vectors + min(self.room, int(COPIES_NEWTON * rows))


def project(
    n_rows: int,
    n_features: int,
    budget: int,
    workers: int = 1,
    processes: int = 0,
    in_process: bool = True,
    reads_less: bool = False,
    carried: bool = False,
) -> Projection:
    """Divide a budget, or say with both numbers that the job cannot fit.

    ``processes`` are worker processes that count (those of a cluster do not); ``in_process`` False means that results
    travel. ``reads_less`` is granted if there is room. ``carried``: steps may start from models of other runs.
    """
    vectors, row_bytes = VECTORS, ROW_BYTES
    if carried:
        vectors, row_bytes = vectors + CARRIED_VECTORS, row_bytes + CARRIED_ROW_BYTES
    found = _divided(n_rows, n_features, budget, vectors, row_bytes)
    working = WORKER * processes + (BATCH if in_process else BATCH_FROM_AFAR) * workers
    rest = max(working / SHARE_FOR_WORKERS, LEAST_WORKING_SET / (1 - SHARE_FOR_WORKERS))
    least = found.base + found.vectors + found.row_arrays + int(rest)
    if budget < least:
        whom = f" with {processes} worker processes" if processes else ""
        raise BudgetError(
            f"{n_rows:,} rows and {n_features:,} features need at least {least / 1e6:,.0f} MB{whom}, "
            f"but the budget is {budget / 1e6:,.0f} MB; raise --memory{' or use threads' if processes else ''}"
        )
    more = _divided(n_rows, n_features, budget, vectors + KNOWN_VECTORS, row_bytes + KNOWN_ROW_BYTES)
    more = replace(more, reads_less=True)
    return more if reads_less and found.room - more.room <= SHARE_FOR_KNOWN * (budget - least) else found


def _divided(n_rows: int, n_features: int, budget: int, vectors: int, row_bytes: int) -> Projection:
    scratch = row_bytes * n_rows > SHARE_FOR_ROW_ARRAYS * budget
    rows = (MASKS if scratch else row_bytes) * n_rows
    return Projection(budget, BASE, vectors * 8 * n_features, rows, scratch)


@dataclass(frozen=True)
class KernelProjection:
    """How a budget is divided where w is known by kernel values: in bytes, and in rows of the working set.

    ``columns`` is for kernel columns that are kept where passes run: with none, all are computed again and again. Where
    more than ``working_rows`` are free, up to ``free_rows`` may be solved for.
    """

    budget: int
    scratch: bool
    working_rows: int
    free_rows: int
    columns: int


Budget = Projection | KernelProjection


def project_kernel(
    n_rows: int,
    n_features: int,
    rows_a_shard: int,
    budget: int,
    workers: int,
    in_process: bool,
    carried: bool = False,
) -> KernelProjection:
    """Divide a budget, or say with both numbers that the job cannot fit; ``rows_a_shard`` is that of the largest.

    As for linear runs, the working set and the columns do not depend on the workers.
    """
    row_bytes = KERNEL_ROW_BYTES + (CARRIED_KERNEL_ROW_BYTES if carried else 0)
    scratch = row_bytes * n_rows > SHARE_FOR_ROW_ARRAYS * budget
    rows = (KERNEL_MASKS if scratch else row_bytes) * n_rows
    fixed = BASE + rows + 8 * n_features + GATHERED
    passing = (PASSING + PASSING_ROW_BYTES * rows_a_shard + 4 * n_features) * (workers if in_process else 1)
    gram = GRAM_COPIES * 8 * LEAST_WORKING_ROWS**2
    least = fixed + int(max(passing / SHARE_FOR_WORKERS, gram / (1 - SHARE_FOR_WORKERS)))
    if budget < least:
        raise BudgetError(
            f"{n_rows:,} rows with a kernel need at least {least / 1e6:,.0f} MB, but the budget is "
            f"{budget / 1e6:,.0f} MB; raise --memory, or ingest into smaller shards (--rows-per-shard)"
        )
    room = int((budget - fixed) * (1 - SHARE_FOR_WORKERS))
    most = min(n_rows, int((SHARE_FOR_GRAM * room / (GRAM_COPIES * 8)) ** 0.5))
    working = max(LEAST_WORKING_ROWS, min(MOST_WORKING_ROWS, most))
    free = max(working, min(MOST_FREE_ROWS, most))
    return KernelProjection(budget, scratch, working, free, max(0, room - GRAM_COPIES * 8 * free**2))


def default_budget() -> int:
    """Return half of the machine's memory, or of what its control group allows."""
    return int(SHARE_OF_MACHINE * machine_memory())


def machine_memory() -> int:
    """Return the machine's memory, or what the control groups allow that this process is in."""
    total, groups = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), Path("/proc/self/cgroup")
    for limit in limits_of(groups.read_text() if groups.exists() else ""):
        try:
            total = min(total, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return total


def limits_of(groups_of_process: str) -> Iterator[Path]:
    """Yield the files of both versions of control groups that may limit the memory of a process in these groups.

    In a container its own group is the root; elsewhere it is below, and every group above it counts, too.
    """
    groups = dict.fromkeys(("", "memory"), PurePosixPath("/"))
    for line in groups_of_process.splitlines():
        _, controllers, group = line.split(":", 2)
        for name in groups.keys() & set(controllers.split(",")):
            groups[name] = PurePosixPath(group)
    for name, file in (("", "memory.max"), ("memory", "memory.limit_in_bytes")):
        root = Path("/sys/fs/cgroup", name)
        yield from (root.joinpath(*group.parts[1:], file) for group in (groups[name], *groups[name].parents))
