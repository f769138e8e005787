"""Dual coordinate descent (Hsieh et al. 2008, algorithms 1 and 3): for sparse rows with many features.

Problem: see ``reduced``. One step takes a row i, its gradient G = z_i . w - 1, and sets

    alpha_i <- clip(alpha_i - G/|z_i|^2, 0, u_i),    w <- w + (change of alpha_i) z_i,

which keeps w = w_alpha = v + sum alpha_i z_i. Rows are taken in a new random order each sweep; with shrinking, rows
at a bound that are unlikely to move are set aside (the paper's "Shrink"; without it, "Full"). Sweeps are combined by
subspace steps (see ``subspace_kernel``), which shorten the tail several times where many alphas are free.

The stop rule is the gap itself: the sum of the gap terms met during a sweep estimates it for free, and when that is
small enough w is summed afresh, the exact gap is computed over all rows, and the rows set aside come back if it is
still too large. Where w_alpha misses the target and another point on its ray reaches it (see ``ray_kernel``), that is
the answer's w, and its solver "dcd+ray"; otherwise w = w_alpha.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp

from pipeline.solve.dcd_kernel import add_rows, exact_gap
from pipeline.solve.ray_kernel import best_scale
from pipeline.solve.reduced import ReducedProblem, Solution
from pipeline.solve.subspace_kernel import settle, sweeps

NONZEROS_A_CALL = 2_000_000
MOST_SWEEPS, MOST_A_BURST = 1_000_000, 10
MOST_QUIET, LEAST_CAUTION = 20, 1e-3
FIRST_STEP = 4  # sweeps up to the first subspace step: before that, many rows change sides
DENSE_SHARE = 0.25  # what a value of a dense row costs, in nonzeros of sparse ones
NONZEROS_A_ROW, STEP_A_ROW, STEP_A_FEATURE = 20, 15, 8  # what visits and steps cost besides nonzeros, in nonzeros
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
        self.rows = _rows(problem)
        self.problem, self.alpha, self.shrink, self.ray = problem, alpha, shrink, ray
        n = alpha.size
        state = np.array([(seed * 0x9E3779B97F4A7C15 + 0x1234567890ABCDEF) % 2**64 or 1], dtype=np.uint64)
        self.order = (np.arange(n), state, np.array([n, np.inf, -np.inf]))
        self.squares, self.margins = np.full(n, -1.0), np.empty(n)
        self.w = problem.v.copy()
        self.memory: _Memory | None = None
        self.pace = np.array([FIRST_STEP, 1])
        self.sweeps, self.work, self.next_scaling = 0, 0.0, 0
        self.caution = 0.7

    def exact_gap(self) -> float:
        """Sum w afresh, bring the rows back that may move, and return the gap of (w, alpha)."""
        self.w[:] = self.problem.v
        add_rows(self.rows, self.alpha, self.w)
        gap = float(exact_gap(self.rows, self.problem.u, self.alpha, self.w, self.order, self.margins, self.shrink))
        if self.memory is not None:
            self.memory[0][1][:] = self.w
            settle(self.rows, self.alpha, self.order[0][int(self.order[2][0]) :], self.memory)
        return gap

    def judged(self, target_gap: float, detail: str = "sweeps") -> Solution:
        """Compute the exact gap, try the ray if it is too large, and say whether the target is reached."""
        gap, w, solver, outcome = self.exact_gap(), self.w, "dcd", "limit"
        if gap > target_gap and self.ray:
            on_ray, scale = self._ray(self.alpha.size)
            if on_ray <= target_gap:
                gap, w, solver = on_ray, scale * self.w, "dcd+ray"
        if gap <= target_gap:
            outcome, detail = "converged", ""
        elif not np.isfinite(gap):
            outcome, detail = "failed", "the gap is not finite (values too large)"
        return Solution(self.alpha, w, gap, outcome, self.sweeps, solver, detail)

    def advance(self, target_gap: float, deadline: float, most_sweeps: int) -> None:
        """Sweep until the estimate promises the target, or has not fallen for a while."""
        last, quiet = np.inf, 0
        while self.sweeps < most_sweeps and time.monotonic() < deadline:
            estimate, promised = self.burst(target_gap, most_sweeps - self.sweeps)
            quiet = quiet + 1 if estimate >= last else 0
            last = min(last, estimate)
            if promised or quiet >= MOST_QUIET:
                break

    def burst(self, target_gap: float, most_sweeps: int = MOST_SWEEPS) -> tuple[float, bool]:
        """Run a few sweeps; return the estimate of the gap and whether it promises the target.

        Each time a promise proves hollow (rows that were set aside had to move) the next must be twice as good.
        """
        if self.memory is None or self.sweeps >= self.next_scaling:
            self.memory = self._scaled_memory()
            self.next_scaling = 2 * self.sweeps + 2
        old, p1, p2 = self.memory
        before, d = float(self.order[2][0]), self.w.size
        length = self.problem.nnz / max(1, self.alpha.size)
        length = (length if self.problem.is_sparse else DENSE_SHARE * length) + NONZEROS_A_ROW
        price = (before * STEP_A_ROW + d * STEP_A_FEATURE) / (before * length + 1)
        count = min(
            1 + self.sweeps // 4, max(1, NONZEROS_A_CALL // max(1, self.problem.nnz)), MOST_A_BURST, most_sweeps
        )
        box, point = (self.problem.u, self.squares), (self.alpha, self.w, self.margins)
        active, estimate, steps = sweeps(
            self.rows, box, point, self.order, self.memory, self.shrink, (count, price, self.pace)
        )
        if steps % 2 == 1:
            self.memory = old, p2, p1
        self.sweeps += count
        self.work += (count + steps * price) * (before + active) / 2 * length
        if self.ray and self.caution * target_gap < estimate <= RAY_REACH * target_gap:
            estimate = min(estimate, self._ray(active)[0])
        promised = active == 0 or estimate <= self.caution * target_gap
        if promised:
            self.caution = max(self.caution / 2, LEAST_CAUTION)
        return estimate, promised

    def _ray(self, count: int) -> tuple[float, float]:
        """Return the gap and the scale of the best point on the ray of w, by the margins of the first rows in use."""
        size = float(self.w @ self.w)
        gap, scale = best_scale(self.order[0][:count], self.margins, self.alpha, self.problem.u, size)
        return float(gap), float(scale)

    def _scaled_memory(self) -> _Memory:
        """Scale the free alphas to the dual optimum (a start may be right but for that) and keep them as first step."""
        alpha, u = self.alpha, self.problem.u
        is_free = (alpha > 0.0) & (alpha < u)
        free, image = np.where(is_free, alpha, 0.0), np.zeros(self.w.size)
        if is_free.any():
            add_rows(self.rows, free, image)
            best = float(free.sum() - self.w @ image) / max(float(image @ image), 1e-300)
            growth = min(max(best, -1.0), float(np.min(u[is_free] / alpha[is_free])) - 1.0)
            np.minimum(alpha + growth * free, u, out=alpha)
            self.w += growth * image
        return (alpha.copy(), self.w.copy()), (free, image), (np.zeros(alpha.size), np.zeros(self.w.size))


_Pair = tuple[np.ndarray, np.ndarray]
_Memory = tuple[_Pair, _Pair, _Pair]


def _rows(problem: ReducedProblem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (indptr, indices, values) that share the rows' memory; dense rows need no indices."""
    if problem.is_sparse:
        rows = sp.csr_array(problem.z)
        return rows.indptr, rows.indices.view(np.uint32 if rows.indices.dtype == np.int32 else np.uint64), rows.data
    n, d = problem.z.shape
    return np.arange(n + 1) * d, np.empty((0, 0), np.uint32), np.ascontiguousarray(problem.z).reshape(-1)
