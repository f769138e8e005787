"""Dual coordinate descent (Hsieh et al. 2008, algorithms 1 and 3): for sparse rows with many features.

Problem: see ``reduced``. One step takes a row i, its gradient G = z_i . w - 1, and sets

    alpha_i <- clip(alpha_i - G/|z_i|^2, 0, u_i),    w <- w + (change of alpha_i) z_i,

which keeps w = w_alpha = v + sum alpha_i z_i. Rows are taken in a new random order each sweep; with shrinking, rows
at a bound that are unlikely to move are set aside (the paper's "Shrink"; without it, "Full"). Sweeps are combined by
subspace steps (see ``subspace_kernel``), which shorten the tail several times where many alphas are free. Other orders
and two halves on two cores took more sweeps, not fewer (tests/bench/orders.py).

The stop rule is the gap itself: the sum of the gap terms met during a sweep estimates it for free, and when that is
small enough w is summed afresh, the exact gap is computed over all rows, and the rows set aside come back if it is
still too large. Where w_alpha misses the target and another point on its ray reaches it (see ``ray_kernel``), that is
the answer's w, and its solver "dcd+ray"; otherwise w = w_alpha.
"""

from __future__ import annotations

import time

import numpy as np

from pipeline.solve.dcd_kernel import DUAL, add_rows, exact_gap
from pipeline.solve.ray_kernel import best_scale
from pipeline.solve.reduced import ReducedProblem, Solution
from pipeline.solve.rows import rows_of
from pipeline.solve.subspace_kernel import scale_free, settle, sweeps

NONZEROS_A_CALL = 2_000_000
MOST_SWEEPS, MOST_A_BURST, LEAST_A_BURST = 1_000_000, 10, 50_000  # the last in nonzeros: calls cost time, too
MOST_QUIET, LEAST_CAUTION = 20, 1e-3
FIRST_STEP = 4  # sweeps up to the first subspace step: before that, many rows change sides
DEAR_STEP, LATE_STEP = 0.5, 12  # where a step costs more than so many sweeps it comes later
DENSE_SHARE = 0.25  # what a value of a dense row costs, in nonzeros of sparse ones
NONZEROS_A_ROW, STEP_A_ROW, STEP_A_FEATURE = 20, 15, 3  # what visits and steps cost besides nonzeros, in nonzeros
LOOK_AGAIN, LEAST_WORK = 0.1, 10.0  # the estimate is checked once it has fallen so far, after so many passes' work
MOST_HOLLOW = 12  # looks in a row at which neither gap nor dual is better: rounding, or a target out of reach
RAY_REACH = 30.0  # the ray is searched once the gap at w_alpha is within this factor of the target


def solve_dcd(
    problem: ReducedProblem,
    start: np.ndarray | None = None,
    target_gap: float = 0.0,
    seconds: float = float("inf"),
    most_sweeps: int = MOST_SWEEPS,
    shrink: bool = True,
    seed: int = 0,
    ray: bool = True,
) -> Solution:
    """Solve to an absolute gap on the reduced problem, from any start alpha; the same seed gives the same bits.

    Without ``ray`` the answer is w_alpha, whatever else would do.
    """
    run = Descent(problem, problem.feasible(start), shrink, seed, ray)
    deadline = time.monotonic() + seconds
    while True:
        found = run.judged(target_gap)
        if found.outcome != "limit" or run.sweeps >= most_sweeps:
            return found
        if time.monotonic() > deadline:
            return run.judged(target_gap, "time")
        run.advance(target_gap, deadline, most_sweeps)


class Descent:
    """The state of one solve: alpha, w = w_alpha, the rows in use, and the work done (in nonzeros visited)."""

    def __init__(self, problem: ReducedProblem, alpha: np.ndarray, shrink: bool, seed: int, ray: bool = True) -> None:
        self.rows = rows_of(problem)
        self.problem, self.shrink, self.ray = problem, shrink, ray
        n, d = problem.z.shape
        self.duals = _duals(alpha, problem.u)
        state = np.array([(seed * 0x9E3779B97F4A7C15 + 0x1234567890ABCDEF) % 2**64 or 1], dtype=np.uint64)
        self.order = (np.arange(n, dtype=np.uint32), state, np.array([n, np.inf, -np.inf]))
        self.w = problem.v.copy()
        self.features = (self.w, problem.v.copy(), np.zeros(d), np.zeros(d))
        self.pace = np.array([FIRST_STEP, 1])
        self.scratch = (np.zeros((3, 3)), np.zeros(3), np.zeros(3), np.zeros((3, 3)), np.zeros(3))
        self.sweeps, self.work, self.n_free = 0, 0.0, 0
        self.next_scaling = 0 if alpha.any() else 2
        self.caution, self.gap, self.looked, self.lowest, self.quiet = 0.7, np.inf, 0.0, np.inf, 0
        self.best_gap, self.best_dual, self.hollow = np.inf, -np.inf, 0

    @property
    def alpha(self) -> np.ndarray:
        """A copy of alpha."""
        return np.ascontiguousarray(self.duals["alpha"])

    def exact_gap(self) -> float:
        """Sum w afresh, bring the rows back that may move, and return the gap of (w, alpha)."""
        self.w[:] = self.problem.v
        add_rows(self.rows, self.alpha, self.w)
        gap = float(exact_gap(self.rows, self.duals, self.w, self.order, self.shrink))
        if self.sweeps:
            self.features[1][:] = self.w
            settle(self.rows, self.duals, self.order[0][int(self.order[2][0]) :], self.features)
        self.gap, self.looked, self.lowest, self.quiet = gap, self.work, np.inf, 0
        return gap

    def judged(self, target_gap: float, detail: str = "sweeps") -> Solution:
        """Compute the exact gap, try the ray if it is too large, and say whether the target is reached."""
        gap, w, solver, outcome = self.exact_gap(), self.w, "dcd", "limit"
        if self.ray and target_gap < gap <= RAY_REACH * target_gap:
            on_ray, scale = self._ray(self.duals.size)
            if on_ray <= target_gap:
                gap, w, solver = on_ray, scale * self.w, "dcd+ray"
        self._take_note(gap)
        if not np.isfinite(gap):
            outcome, detail = "failed", "the gap is not finite (values too large)"
        elif gap <= target_gap:
            outcome, detail = "converged", ""
        elif self.hollow >= MOST_HOLLOW:
            outcome, detail = "stalled", "neither gap nor dual value gets better"
        return Solution(self.alpha, w, gap, outcome, self.sweeps, solver, detail)

    def _take_note(self, gap: float) -> None:
        """Count the looks since gap or dual value were better by their share; the gap goes up and down meanwhile."""
        dual = float(self.duals["alpha"].sum()) - float(self.w @ self.w) / 2
        better = gap < 0.98 * self.best_gap or dual > self.best_dual + 1e-3 * gap
        self.hollow = 0 if better else self.hollow + 1
        self.best_gap, self.best_dual = min(self.best_gap, gap), max(self.best_dual, dual)

    def advance(self, target_gap: float, deadline: float, most_sweeps: int) -> None:
        """Sweep until it is time to compute the gap."""
        is_time = False
        while not is_time and self.sweeps < most_sweeps and time.monotonic() < deadline:
            _, is_time = self.burst(target_gap, most_sweeps - self.sweeps)

    def burst(self, target_gap: float, most_sweeps: int = MOST_SWEEPS) -> tuple[float, bool]:
        """Run a few sweeps; return the estimate of the gap and whether it is time to compute the gap itself.

        It is when the estimate promises the target: each time that proves hollow (rows that were set aside had to
        move) the next must be twice as good. And it is when the estimate has fallen much or no longer falls, lest work
        be spent on too few rows: at a large C that saves up to five sixths.
        """
        if self.sweeps >= self.next_scaling:
            scale_free(self.rows, self.duals, self.order[0][: int(self.order[2][0])], self.features)
            self.next_scaling = 2 * self.sweeps + 2
        n, d = self.problem.z.shape
        before, length = float(self.order[2][0]), self.problem.row_length
        length = (length if self.problem.is_sparse else DENSE_SHARE * length) + NONZEROS_A_ROW
        sweep = before * length + 1
        price = (before * STEP_A_ROW + d * STEP_A_FEATURE) / sweep
        if self.sweeps == 0 and price > DEAR_STEP:
            self.pace[0] = LATE_STEP
        most = max(MOST_A_BURST, int(LEAST_A_BURST / sweep))
        count = min(1 + self.sweeps // 4, max(1, int(NONZEROS_A_CALL / sweep)), most, most_sweeps)
        plan = (count, price, self.pace, self.scratch)
        active, self.n_free, estimate, steps = sweeps(
            self.rows, self.duals, self.features, self.order, self.shrink, plan
        )
        self.sweeps += count
        self.work += (count + steps * price) * (before + active) / 2 * length
        if self.ray and self.caution * target_gap < estimate <= RAY_REACH * target_gap:
            estimate = min(estimate, self._ray(active)[0])
        promised = active == 0 or estimate <= self.caution * target_gap
        if promised:
            self.caution = max(self.caution / 2, LEAST_CAUTION)
        fallen = estimate <= LOOK_AGAIN * self.gap and self.work - self.looked >= LEAST_WORK * n * length
        self.quiet = 0 if estimate < self.lowest else self.quiet + 1
        self.lowest = min(self.lowest, estimate)
        return estimate, promised or fallen or self.quiet >= MOST_QUIET

    def _ray(self, count: int) -> tuple[float, float]:
        """Return the gap and the scale of the best point on the ray of w, by the margins of the first rows in use."""
        size, duals = float(self.w @ self.w), self.duals
        margins, alpha, u = duals["margin"], duals["alpha"], duals["u"]
        gap, scale = best_scale(self.order[0][:count], margins, alpha, u, size)
        return float(gap), float(scale)


def _duals(alpha: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return one record a row, each in a cache line of its own."""
    line = DUAL.itemsize
    room = np.zeros((u.size + 1) * line, dtype=np.uint8)
    shift = -room.ctypes.data % line
    duals = room[shift : shift + u.size * line].view(DUAL)
    duals["alpha"], duals["old"], duals["u"], duals["inverse"] = alpha, alpha, u, -1.0
    return duals
