"""The choice between solvers: start with dcd, watch it, and go over to newton when that promises to be faster.

Neither is best everywhere (relative gap 1e-4; tests/bench/solvers.py prints the whole table):

- sparse text: dcd by far (imdb at 10^3 C_min: 0.3 s, newton more than 2 s);
- few features and large C, where many sweeps move w very little: newton (splice at 10^7 C_min: 0.01 s, dcd more than
  3 s; a9a at 10^7 C_min: 0.08 s, dcd more than 3 s);
- small C: dcd needs a handful of sweeps (a9a at 10 C_min: 0.007 s against 0.03 s);
- one-hot tables with thousands of columns: dcd up to some 10^4 C_min, newton by conjugate gradients beyond
  (nycflights13 at 10^6 C_min, from the step before: 1 s against 8 s).

So dcd goes first: its early sweeps are the cheapest progress there is. After every few sweeps two times are predicted:
dcd's, from the rate at which its gap has fallen lately, and newton's (see ``timing``). dcd goes on until, after 6 % of
newton's cost (FIRST_LOOK), it would need twice as long (PROMISE); or, after one and a half times that cost
(LAST_LOOK), still half as long. Where newton needs conjugate gradients, whose steps nobody can count beforehand, the
first look is later (news20 at 10^7 C_min: the gap stands still at first while the dual climbs, yet dcd is done long
before newton would be). Where newton stalls or runs out of time, dcd takes over again.

The constants were chosen by replaying some 200 recorded solves under rules of this form. FIRST_LOOK of 0.04 to 0.08,
PROMISE of 1.5 to 3 and LAST_LOOK of 1.5 to 2 do about as well; what is lost elsewhere is dcd's where it was about to be
done. Over 72 solves on data the rule had not seen, 68 took at most 1.3 times the faster solver alone (then dna_scale_t
made it count the lowest estimate, not the last).

Where newton needs conjugate gradients it depends on the rank of the rows. With many more free alphas than features the
dual is singular, dcd's rate is not kept up (nycflights13: it took 15 to 54 times what was predicted), and newton is
given a chance early: the constants AT_CG are from 25 reduced problems of eps-paths (nycflights13, imdb, news20), 28.6 s
of CPU; 37.8 with promise and last look of direct systems. With fewer (click logs: as many features as rows) dcd took
0.9 to 1.7 times what was predicted and newton 1.3 to 9 times, so three times that is what dcd has to beat
(UNDERSTATED). Both numbers are from grids of C on four made click logs of 200,000 to a million rows: 47 s of CPU where
it was 82, dcd alone 47. On nine other problems, of 20,000 to 40,000 rows, 2.4 s where it was 13.

Time is counted in operations, not read from a clock: the same problem takes the same way, to the bit, however busy
the machine is.
"""

from __future__ import annotations

import math
import time

import numpy as np

from pipeline.solve.dcd import Descent, solve_dcd
from pipeline.solve.narrow import may_be_narrowed, narrowed
from pipeline.solve.newton import Newton, solve_newton
from pipeline.solve.newton_system import DIRECT_SIZE
from pipeline.solve.reduced import ReducedProblem, Solution
from pipeline.solve.rows import mean_square
from pipeline.solve.timing import descent_seconds, newton_seconds

# Chosen by replaying recorded solves (see above); ``python -m tests.bench.choices`` halves and doubles them:
FIRST_LOOK, PROMISE, LAST_LOOK = 0.06, 2.0, 1.5
SINGULAR = 4.0  # free alphas a feature: where newton needs conjugate gradients, and there are more than that,
PROMISE_AT_CG, LAST_LOOK_AT_CG = 1.0, 0.75  # it is given a chance early;
UNDERSTATED = 3.0  # with fewer it is taken to need so many times what is predicted;
FIRST_LOOK_AT_CG = 0.3  # and nobody looks earlier than this, either way
# Plain choices:
FEWEST_BURSTS = 3  # before a rate is believed
PROGRESS = 0.1  # of the gap at the start: only a dcd that got so far leaves alphas that are worth starting from
# Of grids, seconds of solves: kdda-like at full size (36 nonzeros a row) 30 with these, 37 with all at once (clock);
# news20 (20,000 rows with 395) 6.8 with six sweeps before, 5.0 to 5.9 at once (CPU).
FEW_ROWS = 1 << 20  # each has a column of its own; a w of so many entries fits into the cache (``maths.csr``)
WIDE_SWEEPS = 6  # about what making columns fewer costs
LAST_SWEEPS = 100_000  # where newton has given up, too: minutes, not for ever


def solve_auto(
    problem: ReducedProblem,
    start: np.ndarray | None = None,
    target_gap: float = 0.0,
    seconds: float = math.inf,
) -> Solution:
    """Solve to an absolute gap by whichever solver promises to be there first, changing over on the way.

    Where that makes w much smaller it is done in fewer columns (``narrow``): at once, if w may fit into the cache then.
    With very many rows it does not, sweeps gain a quarter, and a solve that is soon done goes without.
    """
    deadline, begin, narrow = time.monotonic() + seconds, problem.feasible(start), None
    if problem.u.size <= FEW_ROWS:
        narrow = narrowed(problem)
        run = Descent(problem if narrow is None else narrow.narrow, begin, shrink=True, seed=0)
        found = run.judged(target_gap)
    else:
        run = Descent(problem, begin, shrink=True, seed=0)
        found = run.judged(target_gap)
        while found.outcome == "limit" and run.advance(target_gap, deadline, WIDE_SWEEPS):
            found = run.judged(target_gap)
        narrow = narrowed(problem) if found.outcome == "limit" else None
        if narrow is not None:
            run = Descent(narrow.narrow, run.alpha, shrink=True, seed=0)
            found = run.judged(target_gap)
    found = _solve(run, found, target_gap, deadline)
    return found if narrow is None else narrow.widened(found)


def _solve(run: Descent, found: Solution, target_gap: float, deadline: float) -> Solution:
    first, begin = _watched_descent(run, found, target_gap, deadline)
    if first.outcome in ("converged", "failed") or time.monotonic() > deadline:
        return first
    second = solve_newton(run.problem, begin, target_gap, deadline - time.monotonic())
    best = _better(first, second)
    if best.converged or time.monotonic() > deadline:
        return best
    third = solve_dcd(run.problem, best.alpha, target_gap, deadline - time.monotonic(), most_sweeps=LAST_SWEEPS)
    return _better(best, third)


def _better(one: Solution, two: Solution) -> Solution:
    return two if two.gap < one.gap or two.converged else one


def _watched_descent(run: Descent, found: Solution, target: float, deadline: float) -> tuple[Solution, np.ndarray]:
    """Run dcd until it has converged or newton promises to be faster; return what it found and where newton starts.

    ``found`` is what dcd found when it looked last. Newton starts from there, unless the gap has fallen since: many
    sweeps at a large C that hardly move w leave alphas that take newton longer than none (a9a at 10^7 C_min: by a
    third).
    """
    problem, at_start = run.problem, found
    scale = 0.0  # until newton at its fewest steps comes near: it takes a pass over all values
    history, begun = [(0.0, run.gap)], descent_seconds(problem, run.looked)
    while found.outcome == "limit" and time.monotonic() < deadline:
        gap, is_time = run.burst(target)
        spent = descent_seconds(problem, run.work)
        if is_time:
            found = run.judged(target)
            history, begun = [(0.0, found.gap)], spent
            continue
        gap = min(gap, history[-1][1]) if len(history) > 1 else gap
        history.append((spent - begun, gap))
        look, promise, last_look, dearer = _rule(problem, run.n_free)
        if spent <= look * dearer * newton_seconds(problem, run.n_free, gap, target, scale):
            continue
        scale = scale or float(np.mean(problem.u)) * mean_square(run.rows[2], problem.u.size)
        rival, left = dearer * newton_seconds(problem, run.n_free, gap, target, scale), _remaining(history, target)
        hopeless = spent - begun > look * rival and left > promise * rival
        if hopeless or (spent > last_look * rival and left > rival / 2):
            found = run.judged(target)
            return found, (found if found.gap < PROGRESS * at_start.gap else at_start).alpha
    if found.outcome == "limit":  # the time is over, and w is no longer what it was at the last look
        found = run.judged(target)
    return found, found.alpha


def _rule(problem: ReducedProblem, free: int) -> tuple[float, float, float, float]:
    """Return first look, promise, last look, and how many times its prediction newton takes."""
    if min(problem.z.shape) <= DIRECT_SIZE:
        return FIRST_LOOK, PROMISE, LAST_LOOK, 1.0
    if free > SINGULAR * problem.z.shape[1]:
        return FIRST_LOOK_AT_CG, PROMISE_AT_CG, LAST_LOOK_AT_CG, 1.0
    return FIRST_LOOK_AT_CG, PROMISE, LAST_LOOK, UNDERSTATED


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


class Auto(Newton):
    """dcd first, newton where that promises to be faster; newton's copies count, whether or not it comes to them."""

    name = "auto"

    def bytes_beside(self, problem: ReducedProblem, held: int) -> int:
        """Count the rows in fewer columns, and newton's copies."""
        return super().bytes_beside(problem, held) + (held if may_be_narrowed(problem) else 0)

    def run(
        self, problem: ReducedProblem, start: np.ndarray | None, target_gap: float, shrink: bool = True
    ) -> Solution:
        """Solve; dcd always shrinks here, as the choice was fitted to that."""
        del shrink
        return solve_auto(problem, start, target_gap)


SOLVER = Auto()
