"""Semismooth Newton on the augmented Lagrangian: for few features, or many free alphas, or a small gap.

Problem: see ``reduced``. Outer loop, the proximal point method on the dual:

    alpha+ = argmax D(a) - sum_i (a_i - alpha_i)^2 / (2 sigma_i)  =  clip(alpha + sigma (1 - f), 0, u)  at the w that
    minimises

    phi(w) = |w|^2/2 - v . w + sum_i max_{0 <= a <= u_i} [a (1 - f_i) - (a - alpha_i)^2 / (2 sigma_i)].

phi is piecewise quadratic with gradient w - v - sum a_i(w) z_i; the inner loop is Newton's method with the
generalised Hessian H = I + Z_J^T diag(sigma) Z_J over J = {i: 0 < alpha_i + sigma_i (1 - f_i) < u_i} and an exact
line search. sigma grows from outer step to outer step, so that convergence is superlinear (Li, Sun, Toh 2018, for the
method in general).
"""

from __future__ import annotations

import time

import numpy as np

from pipeline.budget import COPIES_NEWTON
from pipeline.solve.contract import Solver
from pipeline.solve.newton_kernel import line_search, proximal_alpha
from pipeline.solve.newton_system import Systems
from pipeline.solve.reduced import ReducedProblem, Solution, gap_terms
from pipeline.solve.rows import mean_square

# Plain choices; a worse one costs steps, never the answer:
GROWTH, FAST_GROWTH = 3.0, 10.0  # of sigma from outer step to outer step, and where the last one gained little
FIRST_CURVATURE, MOST_CURVATURE = 10.0, 1e12  # sigma times the mean |z_i|^2: beyond, Cholesky has few digits left
OUTER, INNER = 80, 60  # steps at most
IDLE, MOST_IDLE = 0.9, 10  # an outer step that leaves so much of the gap, and so many in a row: stalled
ENOUGH, LEAST_ENOUGH = 1e-3, 1e-14  # of the first gradient, of |w|: the inner loop ends there,
SHARE_OF_TARGET = 0.01  # or where the gradient is worth no more of the target than that
AFRESH = 10  # steps after which the margins, which are added to, are computed again


def solve_newton(
    problem: ReducedProblem,
    start: np.ndarray | None = None,
    target_gap: float = 0.0,
    seconds: float = float("inf"),
) -> Solution:
    """Solve to an absolute gap on the reduced problem, from any start alpha."""
    run = _Newton(problem, problem.feasible(start), target_gap, time.monotonic() + seconds)
    with np.errstate(over="ignore", invalid="ignore"):
        return run.solve()


class _Newton:
    """The state of one solve: the proximal centre alpha, w, the margins f at w, and the best pair so far."""

    def __init__(self, problem: ReducedProblem, alpha: np.ndarray, target: float, deadline: float) -> None:
        self.systems, self.u, self.v = Systems(problem), problem.u, problem.v
        self.target, self.deadline = target, deadline
        self.alpha = alpha
        self.w = self.v + self.systems.combine(alpha)
        self.f = self.systems.margins(self.w)
        self.sigma = self._first_sigma()
        self.trial, self.free = np.empty_like(alpha), np.empty(alpha.size + 1, dtype=np.int64)
        self.steps = 0
        self.best = (float(gap_terms(self.f, alpha, self.u)), self.w, alpha)

    def solve(self) -> Solution:
        """Run outer steps until the gap is reached, or nothing improves, or time is up."""
        idle = 0
        for _ in range(OUTER):
            if self.best[0] <= self.target:
                return self._ended("converged")
            if time.monotonic() > self.deadline:
                return self._ended("limit")
            before = self.best[0]
            if not self._inner():
                return self._ended("failed")
            self.alpha = self.trial.copy()
            w_alpha = self.v + self.systems.combine(self.alpha)
            self._note(self.w, w_alpha, self.f)
            self._note(w_alpha, w_alpha, self.systems.margins(w_alpha))
            idle = idle + 1 if self.best[0] > IDLE * before else 0
            if idle >= MOST_IDLE:
                return self._ended("converged" if self.best[0] <= self.target else "stalled")
            np.minimum(self.sigma * (GROWTH if idle == 0 else FAST_GROWTH), self.most_sigma, out=self.sigma)
        return self._ended("converged" if self.best[0] <= self.target else "limit")

    def _first_sigma(self) -> np.ndarray:
        """Start so that a margin of 1 moves alpha through a good part of its box, at a curvature near that of |w|^2."""
        self.most_sigma = 1.0
        if self.u.size == 0:
            return np.ones(0)
        scale = 1.0 / max(mean_square(self.systems.rows[2], self.u.size), 1e-300)
        self.most_sigma = MOST_CURVATURE * scale
        return np.maximum(np.minimum(FIRST_CURVATURE * scale, self.u), 1e-12 * scale)

    def _inner(self) -> bool:
        """Minimise phi over w; return whether float64 allowed it."""
        tolerance = None
        for _ in range(INNER):
            n_free = proximal_alpha(self.f, self.alpha, self.u, self.sigma, self.trial, self.free)
            gradient = self.w - self.v - self.systems.combine(self.trial)
            size = float(np.linalg.norm(gradient))
            if not np.isfinite(size):
                return False  # values too large
            if tolerance is None:
                tolerance = max(ENOUGH * size, LEAST_ENOUGH * (1.0 + float(np.linalg.norm(self.w))))
            if (
                size <= tolerance
                or size * size / 2 <= SHARE_OF_TARGET * self.target
                or time.monotonic() > self.deadline
            ):
                return True
            step = self.systems.solve(self.free[:n_free], self.sigma, -gradient)
            slope = float(gradient @ step)
            if not np.isfinite(slope):
                return False  # a linear system could not be solved
            if slope >= 0.0:
                return True
            q = self.systems.margins(step)
            slope_without_rows = float((self.w - self.v) @ step)
            t = line_search(self.f, q, self.alpha, self.u, self.sigma, slope_without_rows, float(step @ step))
            self.w = self.w + t * step
            self.f = self.f + t * q
            self.steps += 1
            if self.steps % AFRESH == 0:
                self.f = self.systems.margins(self.w)
        proximal_alpha(self.f, self.alpha, self.u, self.sigma, self.trial, self.free)
        return True

    def _note(self, w: np.ndarray, w_alpha: np.ndarray, f: np.ndarray) -> None:
        """Keep (w, alpha) if its gap is the smallest yet."""
        distance = w - w_alpha
        gap = float(distance @ distance) / 2 + float(gap_terms(f, self.alpha, self.u))
        if gap < self.best[0]:
            self.best = (gap, w.copy(), self.alpha)

    def _ended(self, outcome: str) -> Solution:
        gap, w, alpha = self.best
        return Solution(alpha, w, gap, outcome, self.steps, "newton")


def newton_bytes(held: int) -> int:
    """Return what newton's scaled, transposed and multiplied copies of ``held`` bytes of rows take beside them."""
    return int((COPIES_NEWTON - 1) * held)


class Newton(Solver):
    """newton; it has nothing to shrink."""

    name = "newton"

    def bytes_beside(self, problem: ReducedProblem, held: int) -> int:
        """Count its copies."""
        del problem
        return newton_bytes(held)

    def run(
        self, problem: ReducedProblem, start: np.ndarray | None, target_gap: float, shrink: bool = True
    ) -> Solution:
        """Solve."""
        del shrink
        return solve_newton(problem, start, target_gap)


SOLVER = Newton()
