"""The choice between solvers: start with dcd, watch it, and hand its alpha to newton when that promises to be faster.

Neither is best everywhere (relative gap 1e-4 unless said; tests/bench/solvers.py prints the whole table):

- sparse text: dcd by far (imdb at 10^3 C_min: 0.4 s against 8 s);
- few features and large C, where many sweeps move w very little: newton (splice at 10^7 C_min: 0.1 s against more than
  0.8 s);
- small C: dcd needs a handful of sweeps (a9a at 10 C_min: 0.02 s against 0.12 s).

So dcd goes first: its early sweeps are the cheapest progress there is, and they are not lost, because newton starts
from any alpha. After every few sweeps two costs are predicted: dcd's, from the rate at which its gap has fallen lately;
newton's, from the number of free alphas and the arithmetic of its linear systems. dcd goes on as long as it promises to
be done first. It is given more time where newton may need conjugate gradients, whose steps nobody can count beforehand
(news20 at 10^7 C_min: the gap stands still at first while the dual climbs, yet dcd is done long before newton would
be). Where newton stalls or runs out of time, dcd takes over again.

Costs are counted in operations, not read from a clock (the constants below turn them into seconds of one machine of
2026): the same problem takes the same way, to the bit, however busy the machine is.
"""

from __future__ import annotations

import math
import time

import numpy as np

from pipeline.errors import SolverError
from pipeline.solve.dcd import Descent, solve_dcd
from pipeline.solve.liblinear import solve_liblinear
from pipeline.solve.newton import solve_newton
from pipeline.solve.newton_system import CG_STEPS, DIRECT_SIZE
from pipeline.solve.reduced import ReducedProblem, Solution
from pipeline.spec import SOLVERS

LEAST_STEPS, MOST_STEPS = 8, 40
SECONDS_A_NONZERO, SECONDS_A_CELL, SECONDS_A_ROW = 1.5e-9, 4e-10, 3e-8
SECONDS_A_FLOP, SECONDS_A_STEP, SECONDS_A_SPARSE_STEP, SECONDS_A_FEATURE = 1.5e-10, 1e-4, 5e-4, 8e-9
SECONDS_A_VISIT, SECONDS_A_FAR_VISIT = 2e-9, 5e-9
NEAR_NONZEROS, FAR_FEATURES = 3_000_000, 250_000
FIRST_LOOK, FIRST_LOOK_AT_CG, PATIENCE = 0.1, 0.3, 1.5


def newton_seconds(problem: ReducedProblem, free: int) -> float:
    """Predict what newton costs from so many free alphas: its steps, each a few products and one linear system."""
    n, d = problem.z.shape
    free += 1
    length = problem.nnz / max(n, 1)
    small = min(free, d)
    if small > DIRECT_SIZE:
        entry = SECONDS_A_FAR_VISIT if d > FAR_FEATURES else SECONDS_A_NONZERO
        system = CG_STEPS * (2 * free * length * entry + d * SECONDS_A_FEATURE)
    elif problem.is_sparse:
        meetings = free * length * (min(length * free / d, free) if free < d else length)
        system = meetings * SECONDS_A_NONZERO + small**3 * SECONDS_A_FLOP / 3
    else:
        system = (free * d * small + small**3 / 3) * SECONDS_A_FLOP
    products = 5 * problem.nnz * (SECONDS_A_NONZERO if problem.is_sparse else SECONDS_A_CELL) + n * SECONDS_A_ROW
    overhead = SECONDS_A_SPARSE_STEP if problem.is_sparse else SECONDS_A_STEP
    return min(LEAST_STEPS + d, MOST_STEPS) * (products + system + overhead)


def solve(
    problem: ReducedProblem,
    start: np.ndarray | None = None,
    target_gap: float = 0.0,
    solver: str = "auto",
    seconds: float = math.inf,
    ray: bool = True,
) -> Solution:
    """Solve by the named solver; what ``liblinear`` leaves is finished by ``auto``, from the better of two alphas.

    Without ``ray`` dcd's answer is always w_alpha.
    """
    if solver == "dcd":
        return solve_dcd(problem, start, target_gap, seconds, ray=ray)
    if solver == "newton":
        return solve_newton(problem, start, target_gap, seconds)
    if solver == "liblinear":
        first = solve_liblinear(problem, target_gap)
        if first.converged:
            return first
        own = problem.feasible(start)
        worse = problem.gap(problem.combine(first.alpha), first.alpha) > problem.gap(problem.combine(own), own)
        return solve_auto(problem, own if worse else first.alpha, target_gap, seconds, ray)
    if solver == "auto":
        return solve_auto(problem, start, target_gap, seconds, ray)
    raise SolverError(f"unknown solver {solver!r}; there are {', '.join(SOLVERS)}")


def solve_auto(
    problem: ReducedProblem,
    start: np.ndarray | None = None,
    target_gap: float = 0.0,
    seconds: float = math.inf,
    ray: bool = True,
) -> Solution:
    """Solve to an absolute gap by whichever solver promises to be there first, changing over on the way."""
    deadline = time.monotonic() + seconds
    first = _watched_descent(problem, problem.feasible(start), target_gap, deadline, ray)
    if first.outcome in ("converged", "failed") or time.monotonic() > deadline:
        return first
    second = solve_newton(problem, first.alpha, target_gap, deadline - time.monotonic())
    best = _better(first, second)
    if best.converged or time.monotonic() > deadline:
        return best
    third = solve_dcd(problem, best.alpha, target_gap, deadline - time.monotonic(), most_sweeps=100_000, ray=ray)
    return _better(best, third)


def _better(one: Solution, two: Solution) -> Solution:
    return two if two.gap < one.gap or two.converged else one


def _watched_descent(problem: ReducedProblem, alpha: np.ndarray, target: float, deadline: float, ray: bool) -> Solution:
    """Run dcd until it has converged or newton promises to be faster."""
    run = Descent(problem, alpha, shrink=True, seed=0, ray=ray)
    visit = SECONDS_A_FAR_VISIT if problem.nnz > NEAR_NONZEROS else SECONDS_A_VISIT
    look = FIRST_LOOK_AT_CG if min(problem.z.shape) > DIRECT_SIZE else FIRST_LOOK
    history: list[tuple[float, float]] = []
    found = run.judged(target)
    while found.outcome == "limit" and time.monotonic() < deadline:
        estimate, promised = run.burst(target)
        spent = visit * run.work
        if promised:
            found = run.judged(target)
        history.append((spent, found.gap if promised else estimate))
        rival = newton_seconds(problem, run.n_free)
        hopeless = spent > look * rival and _remaining(history, target) > rival
        if not promised and (hopeless or spent > PATIENCE * rival):
            return run.judged(target, "handed over")
    return found


def _remaining(history: list[tuple[float, float]], target: float) -> float:
    """Predict the cost up to the target from the fall of the gap over the later half of the cost so far."""
    now, gap = history[-1]
    if gap <= target:
        return 0.0
    earlier = [(t, g) for t, g in history if t <= now / 2] or history[:1]
    then, before = earlier[-1]
    if now <= then or gap >= before or gap <= 0.0 or target <= 0.0:
        return math.inf if len(history) > 2 else 0.0
    return (now - then) * math.log(gap / target) / math.log(before / gap)
