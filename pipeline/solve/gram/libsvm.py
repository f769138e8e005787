"""LIBSVM (scikit-learn's SVC on a precomputed kernel), as it is, behind the same contract as the other solvers.

It has a bias, which is the constraint sum y_i a_i = 0, and knows no fold. Two encodings make it usable; neither moves
the optimum:

- bias: every row goes in twice, as z_i with label +1 and as -z_i with label -1, each with half the box. alpha_i is the
  sum of the two halves, and halves that are equal keep the constraint.
- fold: one more row, twice as well, of product b_i/K with row i, 0 with itself, and a box of K. Its gradient
  sum alpha_i b_i/K - 1 is at most -1/2 wherever alpha is, as K >= 2 sum u_i max(0, b_i). So it ends at its bound K,
  and adds b_i to the margin of row i.

The last is true at every stationary point, although no vector v/K has a product of 0 with itself. With rho >= 0 the
constraint's multiplier (for rho <= 0 exchange the halves), a half with label +1 rises where its gradient is below -rho,
and one with label -1 where it is below rho: no half of the first kind is above its twin, their sums agree, so all twins
are equal. The fold's twins are then both at their bound, as both 0 or both inside needs a gradient of at least 0. With
them fixed the rest is convex.

Kernel values are float32 in its cache: whatever misses the target is finished by ``auto``.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.solve.gram.auto import solve_gram_auto
from pipeline.solve.gram.contract import GramSolver
from pipeline.solve.gram.problem import GramProblem, GramSolution
from pipeline.solve.gram.system import system_bytes

TOLERANCE = 1e-3  # LIBSVM's own
MOST_STEPS = 1_000_000  # a plain choice, some seconds: at a large C it may take for ever
CACHE = 200  # MB, scikit-learn's own


def solve_libsvm(
    problem: GramProblem, target_gap: float = 0.0, tolerance: float = TOLERANCE, shrink: bool = True
) -> GramSolution:
    """Solve once, from 0, and report the gap that was really reached; ``shrink`` is LIBSVM's own heuristic."""
    encoded, steps, alpha = encode(problem), 0, np.zeros(problem.u.size)
    if encoded.rows.size:
        alpha[encoded.rows], steps = train(encoded, tolerance, shrink)
    gap = problem.gap(alpha, problem.margins(alpha))
    outcome = "failed" if not np.isfinite(gap) else "converged" if gap <= target_gap else "limit"
    return GramSolution(alpha, gap, outcome, steps, "libsvm")


@dataclass(frozen=True)
class Encoded:
    """A problem's rows, those of an empty box left out; the box of each and of the fold; the doubled kernel matrix."""

    rows: np.ndarray
    box: np.ndarray
    doubled: np.ndarray


def encode(problem: GramProblem) -> Encoded:
    """Write a problem as LIBSVM takes it."""
    rows = np.flatnonzero(problem.u)
    n, u, b = rows.size, problem.u[rows], problem.b[rows]
    whole = np.zeros((n + 1, n + 1))
    whole[:n, :n] = problem.q[np.ix_(rows, rows)]
    k = max(2.0 * float(u @ np.maximum(b, 0.0)), float(u.max(initial=0.0)))
    whole[n, :n] = whole[:n, n] = b / k
    return Encoded(rows, np.append(u, k), np.block([[whole, -whole], [-whole, whole]]))


def train(encoded: Encoded, tolerance: float, shrink: bool) -> tuple[np.ndarray, int]:
    """Fit the doubled problem; return alpha of its rows, the sums of the halves, and the number of steps."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - slow to import, needed here only
    from sklearn.svm import SVC  # noqa: PLC0415

    n, u = encoded.box.size, encoded.box[:-1]
    settings = {"tol": tolerance, "shrinking": shrink, "max_iter": MOST_STEPS, "cache_size": CACHE}
    machine = SVC(kernel="precomputed", C=1.0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap says it
        machine.fit(encoded.doubled, np.repeat([1.0, -1.0], n), np.tile(encoded.box / 2, 2))
    halves = np.zeros(2 * n)
    halves[machine.support_] = np.abs(machine.dual_coef_[0])
    return np.clip((halves[:n] + halves[n:])[:-1], 0.0, u), int(machine.n_iter_.sum())


class Libsvm(GramSolver):
    """LIBSVM; what it leaves is finished by ``auto``, from the better of two alphas."""

    name = "libsvm"

    def bytes_beside(self, n: int) -> int:
        """Count the products, the doubled ones and their copy in scikit-learn, and the cache; or whoever finishes."""
        return max(9 * 8 * (n + 1) ** 2 + CACHE * 2**20, system_bytes(n))

    def run(self, problem: GramProblem, start: np.ndarray | None, target_gap: float) -> GramSolution:
        """Solve."""
        first = solve_libsvm(problem, target_gap)
        if first.converged:
            return first
        own = problem.feasible(start)
        worse = not first.gap <= problem.gap(own, problem.margins(own))
        second = solve_gram_auto(problem, own if worse else first.alpha, target_gap)
        return replace(second, iterations=first.iterations + second.iterations)


SOLVER = Libsvm()
