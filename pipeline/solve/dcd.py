"""Dual coordinate descent (Hsieh et al. 2008, algorithms 1 and 3): for sparse rows with many features.

Problem: see ``reduced``. One step takes a row i, its gradient G = z_i . w - 1, and sets

    alpha_i <- clip(alpha_i - G/|z_i|^2, 0, u_i),    w <- w + (change of alpha_i) z_i,

which keeps w = w_alpha = v + sum alpha_i z_i. Rows are taken in a new random order each sweep; with shrinking, rows
at a bound that are unlikely to move are set aside (the paper's "Shrink"; without it, "Full"). The stop rule is the
gap itself: the sum of the gap terms met during a sweep estimates it for free, and when that is small enough w is
summed afresh, the exact gap is computed over all rows, and the rows set aside come back if it is still too large.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp

from pipeline.solve.dcd_kernel import exact_gap, fresh_w, row_squares, sweeps
from pipeline.solve.reduced import ReducedProblem, Solution

NONZEROS_A_CALL = 2_000_000
MOST_SWEEPS, MOST_A_BURST = 1_000_000, 10
MOST_QUIET, LEAST_CAUTION = 20, 1e-3
NONZEROS_A_ROW = 12  # what a visit costs besides its nonzeros, in nonzeros


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
    outcome, detail = "limit", "sweeps"
    while True:
        gap = run.exact_gap()
        if not np.isfinite(gap):
            outcome, detail = "failed", "the gap is not finite (values too large)"
            break
        if gap <= target_gap:
            outcome, detail = "converged", ""
            break
        if run.sweeps >= most_sweeps:
            break
        if time.monotonic() > deadline:
            detail = "time"
            break
        run.advance(target_gap, deadline, most_sweeps)
    return Solution(run.alpha, run.w, gap, outcome, run.sweeps, "dcd", detail)


class Descent:
    """The state of one solve: alpha, w = w_alpha, the rows in use, and the work done (in nonzeros visited)."""

    def __init__(self, problem: ReducedProblem, alpha: np.ndarray, shrink: bool, seed: int) -> None:
        self.rows = _csr(problem)
        self.problem, self.alpha, self.shrink = problem, alpha, shrink
        self.squares = np.empty(alpha.size)
        row_squares(self.rows, self.squares)
        self.active = np.arange(alpha.size)
        self.state = np.array([(seed * 0x9E3779B97F4A7C15 + 0x1234567890ABCDEF) % 2**64 or 1], dtype=np.uint64)
        self.limits = np.empty(3)
        self.sweeps, self.work = 0, 0.0
        self.w = problem.v.copy()
        self.caution = 0.7
        self._bring_back()

    def exact_gap(self) -> float:
        """Sum w afresh, bring all rows back, and return the gap."""
        self.w[:] = self.problem.v
        fresh_w(self.rows, self.alpha, self.w)
        self._bring_back()
        return float(exact_gap(self.rows, self.problem.u, self.alpha, self.w))

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
        count = min(
            1 + self.sweeps // 4, max(1, NONZEROS_A_CALL // max(1, self.problem.nnz)), MOST_A_BURST, most_sweeps
        )
        order = (self.active, self.state, self.limits)
        before = float(self.limits[0])
        active, estimate = sweeps(
            self.rows, self.squares, self.problem.u, self.alpha, self.w, order, self.shrink, count
        )
        self.sweeps += count
        visited = count * (before + active) / 2
        self.work += visited * (self.problem.nnz / max(1, self.alpha.size) + NONZEROS_A_ROW)
        promised = active == 0 or estimate <= self.caution * target_gap
        if promised:
            self.caution = max(self.caution / 2, LEAST_CAUTION)
        return estimate, promised

    def _bring_back(self) -> None:
        self.limits[:] = self.alpha.size, np.inf, -np.inf


def _csr(problem: ReducedProblem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (indptr, indices, values) that share the rows' memory; dense rows keep their zeros."""
    if problem.is_sparse:
        rows = sp.csr_array(problem.z)
        return rows.indptr, rows.indices.view(np.uint32 if rows.indices.dtype == np.int32 else np.uint64), rows.data
    n, d = problem.z.shape
    indices = np.tile(np.arange(d, dtype=np.uint32), n)
    return np.arange(0, n * d + 1, max(d, 1))[: n + 1], indices, np.ascontiguousarray(problem.z).reshape(-1)
