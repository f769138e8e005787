"""The choice between solvers: start with dcd, watch it, and go over to newton when that promises to be faster.

Neither is best everywhere (relative gap 1e-4; tests/bench/solvers.py prints the whole table):

- sparse text: dcd by far (imdb at 10^3 C_min: 0.3 s, newton more than 2 s);
- few features and large C, where many sweeps move w very little: newton (splice at 10^7 C_min: 0.01 s, dcd more than
  3 s; a9a at 10^7 C_min: 0.08 s, dcd more than 3 s);
- small C: dcd needs a handful of sweeps (a9a at 10 C_min: 0.007 s against 0.03 s).

So dcd goes first: its early sweeps are the cheapest progress there is. After every few sweeps two costs are predicted:
dcd's, from the rate at which its gap has fallen lately, and newton's (see ``costs``). dcd goes on until, after 6 % of
newton's cost (FIRST_LOOK), it would need twice as long (PROMISE); or, after one and a half times that cost (PATIENCE),
still half as long. It is given more time where newton may need conjugate gradients, whose steps nobody can count
beforehand (news20 at 10^7 C_min: the gap stands still at first while the dual climbs, yet dcd is done long before
newton would be). Where newton stalls or runs out of time, dcd takes over again.

The constants were chosen by replaying some 200 recorded solves under rules of this form. FIRST_LOOK of 0.04 to 0.08,
PROMISE of 1.5 to 3 and PATIENCE of 1.5 to 2 do about as well; what is lost elsewhere is dcd's where it was about to be
done. Over 72 solves on data the rule had not seen, 68 took at most 1.3 times the faster solver alone (then dna_scale_t
made it count the lowest estimate, not the last).

Costs are counted in operations, not read from a clock: the same problem takes the same way, to the bit, however busy
the machine is.
"""

from __future__ import annotations

import math
import time

import numpy as np

from pipeline.errors import SolverError
from pipeline.solve.dcd import Descent, solve_dcd
from pipeline.solve.liblinear import solve_liblinear
from pipeline.solve.newton import solve_newton
from pipeline.solve.newton_system import DIRECT_SIZE
from pipeline.solve.reduced import ReducedProblem, Solution
from pipeline.solve.rows import mean_square
from pipeline.solve.timing import descent_seconds, newton_seconds
from pipeline.spec import SOLVERS

FIRST_LOOK, FIRST_LOOK_AT_CG, FEWEST_BURSTS, PROMISE, PATIENCE, PROGRESS = 0.06, 0.3, 3, 2.0, 1.5, 0.1


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
    first, begin = _watched_descent(problem, problem.feasible(start), target_gap, deadline, ray)
    if first.outcome in ("converged", "failed") or time.monotonic() > deadline:
        return first
    second = solve_newton(problem, begin, target_gap, deadline - time.monotonic())
    best = _better(first, second)
    if best.converged or time.monotonic() > deadline:
        return best
    third = solve_dcd(problem, best.alpha, target_gap, deadline - time.monotonic(), most_sweeps=100_000, ray=ray)
    return _better(best, third)


def _better(one: Solution, two: Solution) -> Solution:
    return two if two.gap < one.gap or two.converged else one


def _watched_descent(
    problem: ReducedProblem, alpha: np.ndarray, target: float, deadline: float, ray: bool
) -> tuple[Solution, np.ndarray]:
    """Run dcd until it has converged or newton promises to be faster; return what it found and where newton starts.

    That is where dcd started, unless the gap has fallen: many sweeps at a large C that hardly move w leave alphas that
    take newton longer than none (a9a at 10^7 C_min: by a third).
    """
    run = Descent(problem, alpha, shrink=True, seed=0, ray=ray)
    look = FIRST_LOOK_AT_CG if min(problem.z.shape) > DIRECT_SIZE else FIRST_LOOK
    scale = 0.0  # until newton at its fewest steps comes near: it takes a pass over all values
    found = run.judged(target)
    history, begun, at_start = [(0.0, found.gap)], 0.0, found.gap
    while found.outcome == "limit" and time.monotonic() < deadline:
        gap, is_time = run.burst(target)
        spent = descent_seconds(problem, run.work)
        if is_time:
            found = run.judged(target)
            history, begun = [(0.0, found.gap)], spent
            continue
        gap = min(gap, history[-1][1]) if len(history) > 1 else gap
        history.append((spent - begun, gap))
        if spent <= look * newton_seconds(problem, run.n_free, gap, target, scale):
            continue
        scale = scale or float(np.mean(problem.u)) * mean_square(run.rows[2], problem.u.size)
        rival, left = newton_seconds(problem, run.n_free, gap, target, scale), _remaining(history, target)
        hopeless = spent - begun > look * rival and left > PROMISE * rival
        if hopeless or (spent > PATIENCE * rival and left > rival / 2):
            found = run.judged(target, "handed over")
            return found, found.alpha if found.gap < PROGRESS * at_start else alpha
    return found, found.alpha


def _remaining(history: list[tuple[float, float]], target: float) -> float:
    """Predict the cost up to the target from the fall of the gap over the later half of the cost so far.

    ``history`` lists (cost, gap): a gap that was computed, and the lowest estimates since and what they have cost.
    """
    now, gap = history[-1]
    if gap <= target or len(history) <= FEWEST_BURSTS:
        return 0.0
    earlier = [(t, g) for t, g in history if t <= now / 2] or history[:1]
    then, before = earlier[-1]
    if now <= then or gap >= before or target <= 0.0:
        return math.inf
    return (now - then) * math.log(gap / target) / math.log(before / gap)
