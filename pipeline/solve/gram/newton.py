"""Semismooth Newton on the augmented Lagrangian, in coefficients: it arrives from any start, on any Gram matrix.

Problem: see ``problem``; method: see ``solve.newton``, with w = v + sum beta_j z_j known by its coefficients beta and
its margins f = Q beta + b. An outer step goes from alpha to a(f) = clip(alpha + sigma (1 - f), 0, u) at the w that
minimises phi; there beta = a(f). The inner loop is Newton's: with J the rows that a(f) leaves inside the box and
r = a(f) - beta,

    step of beta    r - E_J (I/sigma + Q_JJ)^-1 (Q r)_J       (Woodbury's form of (I + sigma Z_J^T Z_J)^-1)

and an exact line search. Minus the gradient of phi is the vector of coefficients r, whose length^2 is r . Q r.

phi(w) - min phi <= |gradient|^2/2, and an inner loop ends where that is a small share of the proximal term
|a - alpha|^2 / (2 sigma) (Rockafellar 1976, criterion B). Ended by a share of the first gradient, as in
``solve.newton``, one step in ten of digit1's path at a gamma of 0.1/d stalled: what the inner loop left over came back
multiplied by sigma.
"""

from __future__ import annotations

import numpy as np

from pipeline.solve.gram.contract import GramSolver
from pipeline.solve.gram.kernels import add_columns
from pipeline.solve.gram.problem import GramProblem, GramSolution
from pipeline.solve.gram.system import GramSystems, mean_diagonal, system_bytes
from pipeline.solve.newton_kernel import line_search, proximal_alpha

# Plain choices; a worse one costs steps, never the answer:
GROWTH, FAST_GROWTH = 3.0, 10.0  # of sigma from outer step to outer step, and where the last one gained little
FIRST_CURVATURE, MOST_CURVATURE = 10.0, 1e12  # sigma times the mean diagonal; or the largest alpha, if that is more
BACK = 100.0  # what sigma is divided by where the inner loop did not end: rows then change sides one by one
OUTER, INNER = 80, 60  # steps at most
IDLE, MOST_IDLE = 0.9, 10  # an outer step that leaves so much of the gap, and so many in a row: stalled
ENOUGH, LEAST_ENOUGH = 0.1, 1e-14  # of the proximal term's root, of |w|: the inner loop ends there


def solve_gram_newton(problem: GramProblem, start: np.ndarray | None = None, target_gap: float = 0.0) -> GramSolution:
    """Solve to an absolute gap from any start alpha."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _Newton(problem, problem.feasible(start), target_gap).solve()


class _Newton:
    """The state of one solve.

    The proximal centre alpha; beta and f of the inner loop's w; a(f) and its image Q a, to which changes are added; the
    alpha of the least gap yet.
    """

    def __init__(self, problem: GramProblem, alpha: np.ndarray, target: float) -> None:
        self.problem, self.square, self.target = problem, problem.square, target
        self.systems, mean = GramSystems(self.square, alpha.size), mean_diagonal(problem.q)
        self.most_sigma = MOST_CURVATURE / mean
        first = min(max(FIRST_CURVATURE / mean, float(alpha.max(initial=0.0))), self.most_sigma)
        self.sigma = np.full(alpha.size, first)
        self.trial, self.listed = np.empty(alpha.size), np.empty(alpha.size + 1, dtype=np.int64)
        self.steps, self.least, self.best = 0, np.inf, alpha
        self._centre(alpha)

    def solve(self) -> GramSolution:
        """Run outer steps until the gap is reached, or nothing improves."""
        idle, outcome = 0, "limit" if np.isfinite(self.least) else "failed"
        for _ in range(OUTER):
            if self.least <= self.target or outcome == "failed":
                break
            before = self.least
            ended, free = self._inner()
            if ended == "failed":
                outcome = ended
                continue
            if ended == "unfinished":
                self.sigma /= BACK
                self._centre(self.alpha)
                continue
            settled = self._settled(free)
            self._centre(self.a)
            if self.least > IDLE * before:
                self._look(settled)
            idle = idle + 1 if self.least > IDLE * before else 0
            if idle >= MOST_IDLE:
                outcome = "stalled"
                break
            np.minimum(self.sigma * (GROWTH if idle == 0 else FAST_GROWTH), self.most_sigma, out=self.sigma)
        if self.least <= self.target:
            outcome = "converged"
        return GramSolution(self.best, self.least, outcome, self.steps, "newton")

    def _centre(self, alpha: np.ndarray) -> None:
        """Take alpha as the proximal centre and start from its w; sum its margins afresh."""
        self.alpha, self.beta, self.a = alpha, alpha.copy(), alpha.copy()
        self.f = self._look(alpha)
        self.image = self.f - self.problem.b

    def _look(self, alpha: np.ndarray) -> np.ndarray:
        """Return the margins of alpha, and keep it if its gap is the least yet."""
        f = self.problem.margins(alpha)
        gap = self.problem.gap(alpha, f)
        if gap < self.least:
            self.least, self.best = gap, alpha
        return f

    def _inner(self) -> tuple[str, np.ndarray]:
        """Minimise phi, or stop at a gap that is small enough; return how that ended, and J."""
        free = self.listed[:0]
        for _ in range(INNER):
            free = self._proximal()
            r, image = self.a - self.beta, self.image - (self.f - self.problem.b)
            square = float(r @ image)
            if not np.isfinite(square):
                return "failed", free
            if self._is_enough(square):
                return "minimised", free
            step = r
            if free.size:
                x, _ = self.systems.solve(free, 1.0 / float(self.sigma[0]), image[free])
                if not np.all(np.isfinite(x)):
                    return "failed", free
                step[free] -= x
                add_columns(self.square, free, -x, image)
            if not float((self.a - self.beta) @ image) > 0.0:
                return "minimised", free
            t = line_search(
                self.f, image, self.alpha, self.problem.u, self.sigma, float(self.beta @ image), float(step @ image)
            )
            self.beta += t * step
            self.f += t * image
            self.steps += 1
        return "unfinished", free

    def _proximal(self) -> np.ndarray:
        """Bring a(f) and its image up to date; return the rows it leaves inside the box."""
        count = proximal_alpha(self.f, self.alpha, self.problem.u, self.sigma, self.trial, self.listed)
        moved = np.flatnonzero(self.trial != self.a)
        add_columns(self.square, moved, self.trial[moved] - self.a[moved], self.image)
        self.a[moved] = self.trial[moved]
        return self.listed[:count]

    def _settled(self, free: np.ndarray) -> np.ndarray:
        """Return a(f) with beta on J, put into the box: where phi is minimal, the same without sigma times the rounding
        of f. It is an answer, where that rounding is all that is left; the next centre is a(f).
        """
        alpha = self.a.copy()
        alpha[free] = np.clip(self.beta[free], 0.0, self.problem.u[free])
        return alpha

    def _is_enough(self, square: float) -> bool:
        """Whether a gradient of that length^2 ends the inner loop, or the gap of a(f) all."""
        if self.problem.gap(self.a, self.image + self.problem.b) <= self.target:
            return True
        way = self.a - self.alpha
        proximal = float(way @ way) / float(self.sigma[0])
        length = abs(float(self.a @ self.image))
        return square <= max(ENOUGH**2 * proximal, LEAST_ENOUGH**2 * (1.0 + length))


class GramNewton(GramSolver):
    """newton alone."""

    name = "newton"

    def bytes_beside(self, n: int) -> int:
        """Count one system."""
        return system_bytes(n)

    def run(self, problem: GramProblem, start: np.ndarray | None, target_gap: float) -> GramSolution:
        """Solve."""
        return solve_gram_newton(problem, start, target_gap)


SOLVER = GramNewton()
