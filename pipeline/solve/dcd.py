"""Dual coordinate descent (Hsieh et al. 2008, algorithms 1 and 3): for sparse rows with many features.

Problem: see ``reduced``. One step takes a row i, its gradient G = z_i . w - 1, and sets

    alpha_i <- clip(alpha_i - G/|z_i|^2, 0, u_i),    w <- w + (change of alpha_i) z_i,

which keeps w = w_alpha = v + sum alpha_i z_i. Rows are taken in a new random order each sweep; with shrinking, rows
at a bound that are unlikely to move are set aside (the paper's "Shrink"; without it, "Full"). Sweeps are combined by
subspace steps (see ``subspace_kernel``), which shorten the tail several times where many alphas are free. Other orders
and two halves on two cores took more sweeps, not fewer (tests/bench/orders.py).

The stop rule is the gap itself: the sum of the gap terms met during a sweep estimates it for free, and when that is
small enough w is summed afresh, the exact gap is computed over all rows, and the rows set aside come back if it is
still too large. The answer's w is w_alpha. (The best point on its ray, s w_alpha, was tried and removed: it saved -3 to
15 % of the visits on eps-paths of four data sets, 1 to 12 % on coarse grids of url-like and imdb, and cost a second
vector in every pass that certifies it and now and then a round.)

Looking sooner was tried, too, by a sample of the rows set aside: look once these have more of the gap than the rows in
use. dcd alone then took 0.91 to 0.95 times the visits, looks included, on 16 data sets (kdda-like 0.83 to 0.89, news20
0.73, census 1.09). But a look costs two passes, which is forty sweeps over a twentieth of the rows, and the rate that
``auto`` goes by starts again at each: on eps-paths of nine sets auto took 1.01 times the visits (splice 0.93, dna 1.17,
breast cancer 1.21), on coarse grids of kdda-like, url-like, imdb and census 0.98, 0.96, 0.97 and 1.07 times. Not kept.
"""

from __future__ import annotations

import itertools
import time

import numpy as np

from pipeline.cores import each
from pipeline.solve.contract import Solver
from pipeline.solve.dcd_kernel import DUAL, add_rows, call_back, meet
from pipeline.solve.reduced import ReducedProblem, Solution
from pipeline.solve.rows import rows_of
from pipeline.solve.subspace_kernel import scale_free, settle, sweeps

# Measured, in nonzeros of sparse rows (``python -m tests.bench.calibrate``; on a busy machine, whose cache others fill,
# dense values came out at 1.0 to 1.2, a row at 11 to 15, a step at 4 to 39 a row and 3.6 to 4.8 a feature):
DENSE_VALUE = 0.25  # what a value of a dense row costs
NONZEROS_A_ROW, STEP_A_ROW, STEP_A_FEATURE = 20, 15, 3  # what visits and subspace steps cost besides nonzeros
# Plain choices. With FIRST_CAUTION, FIRST_STEP, LOOK_AGAIN or LEAST_WORK halved or doubled, paths on four data sets
# took 0.84 to 1.06 times the visits and 0.99 to 1.02 times the passes (``python -m tests.bench.choices``):
NONZEROS_A_PART = 1_000_000  # a few milliseconds: what is worth a core of its own
NONZEROS_A_CALL = 2_000_000  # a few milliseconds: how late Ctrl-C and the clock may be
MOST_SWEEPS = 1_000_000  # for ever
MOST_A_BURST, LEAST_A_BURST = 10, 50_000  # sweeps; nonzeros, of which a call from Python must have some
MOST_QUIET = 20  # bursts without a lower estimate: then the exact gap is computed
FIRST_CAUTION, LEAST_CAUTION = 0.7, 1e-3  # of the target: an estimate as small as that promises it
FIRST_STEP = 4  # sweeps up to the first subspace step: before that, many rows change sides
DEAR_STEP, LATE_STEP = 0.5, 12  # where a step costs more than so many sweeps it comes later
# Over 19 paths on eleven data sets: scaling first at 4 or 6 sweeps took 1.01 and 1.04 times the visits, at the start as
# well 1.04; FEW_FREE of 50 to 1000 made 1 % of difference. Without scaling a click log took 696 sweeps for 277.
FIRST_SCALING = 2  # sweeps
FEW_FREE = 100  # times as many rows in use: then scaling, which meets all of them, is left out
LOOK_AGAIN, LEAST_WORK = 0.1, 10.0  # the estimate is checked once it has fallen so far, after so many passes' work
MOST_HOLLOW = 12  # looks in a row at which neither gap nor dual is better: rounding, or a target out of reach
BETTER_GAP, BETTER_DUAL = 0.98, 1e-3  # better is: a gap of so many times the best, a dual higher by so many gaps


def solve_dcd(
    problem: ReducedProblem,
    start: np.ndarray | None = None,
    target_gap: float = 0.0,
    seconds: float = float("inf"),
    most_sweeps: int = MOST_SWEEPS,
    shrink: bool = True,
    seed: int = 0,
) -> Solution:
    """Solve to an absolute gap on the reduced problem, from any start alpha; the same seed gives the same bits."""
    run = Descent(problem, problem.feasible(start), shrink, seed)
    deadline = time.monotonic() + seconds
    while True:
        found = run.judged(target_gap)
        if found.outcome != "limit" or run.sweeps >= most_sweeps or time.monotonic() > deadline:
            return found
        run.advance(target_gap, deadline, most_sweeps)


class Descent:
    """The state of one solve: alpha, w = w_alpha, the rows in use, and the work done (in nonzeros visited)."""

    def __init__(self, problem: ReducedProblem, alpha: np.ndarray, shrink: bool, seed: int) -> None:
        self.rows = rows_of(problem)
        self.problem, self.shrink = problem, shrink
        n, d = problem.z.shape
        self.duals, self.parts = _duals(alpha, problem.u), _parts(n, problem.nnz)
        state = np.array([(seed * 0x9E3779B97F4A7C15 + 0x1234567890ABCDEF) % 2**64 or 1], dtype=np.uint64)
        self.order = (np.arange(n, dtype=np.uint32), state, np.array([n, np.inf, -np.inf]))
        self.seen, self.w = alpha, np.zeros(d)  # alpha at the last look, and w_alpha as it is now
        self.features = (self.w, np.empty(0), np.empty(0), np.empty(0))  # of steps there is nothing yet
        self.pace = np.array([FIRST_STEP, 1])
        self.scratch = (np.zeros((3, 3)), np.zeros(3), np.zeros(3), np.zeros((3, 3)), np.zeros(3))
        self.sweeps, self.work, self.n_free, self.next_scaling = 0, 0.0, 0, FIRST_SCALING
        self.caution, self.gap, self.looked, self.lowest, self.quiet = FIRST_CAUTION, np.inf, 0.0, np.inf, 0
        self.best_gap, self.best_dual, self.hollow = np.inf, -np.inf, 0

    @property
    def alpha(self) -> np.ndarray:
        """A copy of alpha."""
        return np.ascontiguousarray(self.duals["alpha"])

    def exact_gap(self) -> float:
        """Sum w afresh for alpha as it is now, bring the rows back that may move, and return the gap of (w, alpha)."""
        self.seen, w_before = self.alpha, self.features[1]
        if w_before.size:
            w_before -= self.w
        self.w[:] = self.problem.known
        add_rows(self.rows, self.problem.moved(self.seen), self.w)
        is_zero = not bool(self.w.any())
        found = each(lambda part: meet(self.rows, self.duals, self.w, is_zero, *part), self.parts)
        gap = float(sum(part[0] for part in found))
        call_back(self.duals, self.order, self.shrink, max(part[1] for part in found), min(part[2] for part in found))
        if w_before.size:
            w_before += self.w  # at the last step, without what w had of rounding
            settle(self.rows, self.duals, self.order[0][int(self.order[2][0]) :], self.features)
        self.gap, self.looked, self.lowest, self.quiet = gap, self.work, np.inf, 0
        return gap

    def judged(self, target_gap: float) -> Solution:
        """Compute the exact gap, and say whether the target is reached."""
        gap, outcome = self.exact_gap(), "limit"
        self._take_note(gap)
        if not np.isfinite(gap):
            outcome = "failed"  # values too large
        elif gap <= target_gap:
            outcome = "converged"
        elif self.hollow >= MOST_HOLLOW:
            outcome = "stalled"  # neither gap nor dual value gets better
        return Solution(self.seen, self.w, gap, outcome, self.sweeps, "dcd", at_w_alpha=True)

    def _take_note(self, gap: float) -> None:
        """Count the looks since gap or dual value were better by their share; the gap goes up and down meanwhile."""
        dual = float(self.seen.sum()) - float(self.w @ self.w) / 2
        better = gap < BETTER_GAP * self.best_gap or dual > self.best_dual + BETTER_DUAL * gap
        self.hollow = 0 if better else self.hollow + 1
        self.best_gap, self.best_dual = min(self.best_gap, gap), max(self.best_dual, dual)

    def advance(self, target_gap: float, deadline: float, most_sweeps: int) -> bool:
        """Sweep until it is time to compute the gap; return whether it is, before so many sweeps or the deadline."""
        is_time = False
        while not is_time and self.sweeps < most_sweeps and time.monotonic() < deadline:
            _, is_time = self.burst(target_gap, most_sweeps - self.sweeps)
        return is_time

    def _begin_steps(self) -> None:
        """Take down where steps begin: three vectors of all features, which a few sweeps do without."""
        d = self.w.size
        self.features = (self.w, self.w.copy(), np.zeros(d), np.zeros(d))
        self.duals["old"] = self.duals["alpha"]

    def burst(self, target_gap: float, most_sweeps: int = MOST_SWEEPS) -> tuple[float, bool]:
        """Run a few sweeps; return the estimate of the gap and whether it is time to compute the gap itself.

        It is when the estimate promises the target: each time that proves hollow (rows that were set aside had to
        move) the next must be twice as good. And it is when the estimate has fallen much, or below the target, or no
        longer falls, lest work be spent on too few rows: at a large C that saves up to five sixths.
        """
        n, d = self.problem.z.shape
        before, length = float(self.order[2][0]), self.problem.row_length
        length = (length if self.problem.is_sparse else DENSE_VALUE * length) + NONZEROS_A_ROW
        sweep = before * length + 1
        price = (before * STEP_A_ROW + d * STEP_A_FEATURE) / sweep
        if self.sweeps == 0 and price > DEAR_STEP:
            self.pace[0] = LATE_STEP
        most = max(MOST_A_BURST, int(LEAST_A_BURST / sweep))
        count = min(1 + self.sweeps // 4, max(1, int(NONZEROS_A_CALL / sweep)), most, most_sweeps)
        is_scaled = self.sweeps >= self.next_scaling and self.n_free * FEW_FREE >= before
        if not self.features[1].size and (is_scaled or count >= self.pace[0]):
            self._begin_steps()
        if is_scaled:
            scale_free(self.rows, self.duals, self.order[0][: int(self.order[2][0])], self.features)
            self.next_scaling = 2 * self.sweeps + 2
        plan = (count, price, self.pace, self.scratch)
        active, self.n_free, estimate, steps = sweeps(
            self.rows, self.duals, self.features, self.order, self.shrink, plan
        )
        self.sweeps += count
        self.work += (count + steps * price) * (before + active) / 2 * length
        promised = active == 0 or estimate <= self.caution * target_gap
        if promised:
            self.caution = max(self.caution / 2, LEAST_CAUTION)
        due = self.work - self.looked >= LEAST_WORK * n * length
        fallen = due and estimate <= max(LOOK_AGAIN * self.gap, target_gap)
        self.quiet = 0 if estimate < self.lowest else self.quiet + 1
        self.lowest = min(self.lowest, estimate)
        return estimate, promised or fallen or self.quiet >= MOST_QUIET


def _parts(n: int, nnz: int) -> list[tuple[int, int]]:
    """Cut n rows into parts that are looked at one by one, of (first, stop): the same whatever cores there are."""
    count = max(1, min(n, nnz // NONZEROS_A_PART))
    ends = [n * k // count for k in range(count + 1)]
    return list(itertools.pairwise(ends))


def _duals(alpha: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return one record a row, each in a cache line of its own."""
    line = DUAL.itemsize
    room = np.zeros((u.size + 1) * line, dtype=np.uint8)
    shift = -room.ctypes.data % line
    duals = room[shift : shift + u.size * line].view(DUAL)
    duals["alpha"], duals["u"], duals["inverse"] = alpha, u, -1.0
    return duals


class DualDescent(Solver):
    """dcd, with or without shrinking."""

    name = "dcd"

    def bytes_beside(self, problem: ReducedProblem, held: int) -> int:
        """Nothing to speak of: a cache line a row and a few vectors, which ``budget`` counts with the rows."""
        del problem, held
        return 0

    def run(
        self, problem: ReducedProblem, start: np.ndarray | None, target_gap: float, shrink: bool = True
    ) -> Solution:
        """Solve."""
        return solve_dcd(problem, start, target_gap, shrink=shrink)


SOLVER = DualDescent()
