"""Semismooth Newton on the augmented Lagrangian: for few features, or many free alphas, or a small gap.

Problem: see ``reduced``. Outer loop, the proximal point method on the dual:

    alpha+ = argmax D(a) - sum_i (a_i - alpha_i)^2 / (2 sigma_i)  =  clip(alpha + sigma (1 - f), 0, u)  at the w that
    minimises

    phi(w) = |w|^2/2 - v . w + sum_i max_{0 <= a <= u_i} [a (1 - f_i) - (a - alpha_i)^2 / (2 sigma_i)].

phi is piecewise quadratic with gradient w - v - sum a_i(w) z_i; the inner loop is Newton's method with the
generalised Hessian H = I + Z_J^T diag(sigma) Z_J over J = {i: 0 < alpha_i + sigma_i (1 - f_i) < u_i} and an exact
line search. sigma grows from outer step to outer step, so that convergence is superlinear (Li, Sun, Toh 2018, for the
method in general).

H is solved by Cholesky, in the features or (Woodbury) in the rows of J, whichever is fewer, and by conjugate
gradients when both are many.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from pipeline.solve.newton_kernel import line_search, proximal_alpha
from pipeline.solve.reduced import Matrix, ReducedProblem, Solution, gap_terms

DIRECT_SIZE = 2500
GROWTH, FAST_GROWTH = 3.0, 10.0
OUTER, INNER, MOST_IDLE = 80, 60, 10
MOST_CURVATURE = 1e12
CG_STEPS = 300


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
        self.problem, self.z, self.u, self.v = problem, problem.z, problem.u, problem.v
        self.target, self.deadline = target, deadline
        self.alpha = alpha
        self.w = problem.combine(alpha)
        self.f = np.asarray(self.z @ self.w, dtype=np.float64)
        self.sigma = self._first_sigma()
        self.trial, self.free = np.empty_like(alpha), np.empty(alpha.size, dtype=bool)
        self.steps = 0
        self.best = (float(gap_terms(self.f, alpha, self.u)), self.w, alpha)

    def solve(self) -> Solution:
        """Run outer steps until the gap is reached, or nothing improves, or time is up."""
        idle = 0
        for _ in range(OUTER):
            if self.best[0] <= self.target:
                return self._ended("converged")
            if time.monotonic() > self.deadline:
                return self._ended("limit", "time")
            before = self.best[0]
            trouble = self._inner()
            if trouble:
                return self._ended("failed", trouble)
            self.alpha = self.trial.copy()
            self._note(self.w, self.alpha, self.f)
            w_alpha = self.problem.combine(self.alpha)
            self._note(w_alpha, self.alpha, np.asarray(self.z @ w_alpha, dtype=np.float64))
            idle = idle + 1 if self.best[0] > 0.9 * before else 0
            if idle >= MOST_IDLE:
                return self._ended("converged" if self.best[0] <= self.target else "stalled")
            np.minimum(self.sigma * (GROWTH if idle == 0 else FAST_GROWTH), self.most_sigma, out=self.sigma)
        return self._ended("converged" if self.best[0] <= self.target else "limit", "outer steps")

    def _first_sigma(self) -> np.ndarray:
        """Start so that a margin of 1 moves alpha through a good part of its box, at a curvature near that of |w|^2."""
        self.most_sigma = 1.0
        if self.u.size == 0:
            return np.ones(0)
        if sp.issparse(self.z):
            squares = np.asarray(self.z.multiply(self.z).sum(axis=1), dtype=np.float64).reshape(-1)
        else:
            squares = np.einsum("ij,ij->i", self.z, self.z)
        scale = 1.0 / max(float(np.mean(squares)), 1e-300)
        self.most_sigma = MOST_CURVATURE * scale
        return np.maximum(np.minimum(10.0 * scale, self.u), 1e-12 * scale)

    def _inner(self) -> str:
        """Minimise phi over w; return a word about trouble, or nothing."""
        tolerance = None
        for _ in range(INNER):
            proximal_alpha(self.f, self.alpha, self.u, self.sigma, self.trial, self.free)
            gradient = self.w - self.v - np.asarray(self.z.T @ self.trial, dtype=np.float64)
            size = float(np.linalg.norm(gradient))
            if not np.isfinite(size):
                return "the gradient is not finite (values too large)"
            if tolerance is None:
                tolerance = max(1e-3 * size, 1e-14 * (1.0 + float(np.linalg.norm(self.w))))
            if size <= tolerance or size * size / 2 <= 0.01 * self.target or time.monotonic() > self.deadline:
                return ""
            step = self._direction(-gradient)
            slope = float(gradient @ step)
            if not np.isfinite(slope):
                return "a linear system could not be solved"
            if slope >= 0.0:
                return ""
            q = np.asarray(self.z @ step, dtype=np.float64)
            slope_without_rows = float((self.w - self.v) @ step)
            t = line_search(self.f, q, self.alpha, self.u, self.sigma, slope_without_rows, float(step @ step))
            self.w = self.w + t * step
            self.f = self.f + t * q
            self.steps += 1
            if self.steps % 10 == 0:
                self.f = np.asarray(self.z @ self.w, dtype=np.float64)
        proximal_alpha(self.f, self.alpha, self.u, self.sigma, self.trial, self.free)
        return ""

    def _direction(self, right: np.ndarray) -> np.ndarray:
        """Solve (I + Z_J^T diag(sigma) Z_J) step = right."""
        rows = np.flatnonzero(self.free)
        if rows.size == 0:
            return right
        scaled = _scaled(self.z[rows], np.sqrt(self.sigma[rows]))
        d = right.size
        if min(d, rows.size) > DIRECT_SIZE:
            return _conjugate_gradients(scaled, right)
        if rows.size < d:
            small = _dense(scaled @ scaled.T)
            small[np.diag_indices_from(small)] += 1.0
            return right - np.asarray(scaled.T @ _solve_positive(small, np.asarray(scaled @ right)))
        small = _dense(scaled.T @ scaled)
        small[np.diag_indices_from(small)] += 1.0
        return _solve_positive(small, right)

    def _note(self, w: np.ndarray, alpha: np.ndarray, f: np.ndarray) -> None:
        """Keep the pair if its gap is the smallest yet."""
        distance = w - self.problem.combine(alpha)
        gap = float(distance @ distance) / 2 + float(gap_terms(f, alpha, self.u))
        if gap < self.best[0]:
            self.best = (gap, w.copy(), alpha.copy())

    def _ended(self, outcome: str, detail: str = "") -> Solution:
        gap, w, alpha = self.best
        return Solution(alpha, w, gap, outcome, self.steps, "newton", detail)


def _scaled(rows: Matrix, factors: np.ndarray) -> Matrix:
    if sp.issparse(rows):
        return sp.csr_array(rows.multiply(factors[:, None]))
    return rows * factors[:, None]


def _dense(matrix: Matrix) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def _solve_positive(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve by Cholesky; where rounding has made the matrix indefinite, a ridge at the level of rounding repairs it.

    The result is a direction for a line search, so that a ridge costs steps, not correctness.
    """
    ridge = 1e-15 * float(np.trace(matrix))
    for attempt in range(4):
        try:
            return scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix, check_finite=False), right)
        except np.linalg.LinAlgError:
            matrix[np.diag_indices_from(matrix)] += ridge * 100.0**attempt
    return np.full(right.size, np.nan)


def _conjugate_gradients(rows: Matrix, right: np.ndarray, tolerance: float = 1e-3) -> np.ndarray:
    """Solve (I + rows^T rows) x = right roughly, preconditioned by its diagonal: features differ in frequency."""
    squares = rows.multiply(rows).sum(axis=0) if sp.issparse(rows) else np.einsum("ij,ij->j", rows, rows)
    inverse = 1.0 / (1.0 + np.asarray(squares, dtype=np.float64).reshape(-1))
    columns = sp.csr_array(rows.T) if sp.issparse(rows) else rows.T
    x = np.zeros_like(right)
    residual = right.copy()
    scaled = inverse * residual
    direction = scaled.copy()
    square = float(residual @ scaled)
    goal = tolerance * tolerance * square
    for _ in range(CG_STEPS):
        if square <= goal:
            break
        image = direction + np.asarray(columns @ (rows @ direction))
        length = square / float(direction @ image)
        x += length * direction
        residual -= length * image
        scaled = inverse * residual
        new = float(residual @ scaled)
        direction = scaled + (new / square) * direction
        square = new
    return x
