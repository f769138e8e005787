"""How long something will still take, from how much of it was left at some moments.

Both unknowns are taken from the two halves of the steps so far. How many steps are left: a path's steps in log C get
longer by some factor a step, and so does any other way to its end. It ends when all C are done, or when no row is at its
bound any more, which is the way in logs of their number: of the two the shorter. How long they take: steps at a larger
C take longer, so that time goes with a power of their number, t = T k^p; a guess with p = 1 is too low at first and
grows hour by hour. Between two steps the guess counts down.

Replayed from the steps of finished eps-paths, what was said over what was true, as a factor either way: the median over
time, and the most that was said too much (busy machine; before: by a power of the share of log C that was done)

    census_income_kdd 1.1, 3.0 (1.4, 4.4)    imdb50k_uni 1.8, 3.5 (2.8, 15)    mushrooms 1.3, 2.5 (5.7, 13)
    a9a 1.5, 1.9 (2.0, 2.7)                  digit1 1.1, 1.5 (3.2, 23)         dna_scale 2.8, 4.3 (3.3, 7.5)

Nobody knows early what is to come: imdb, whose last third of the steps takes nine tenths of the time, has 10 s said
where 360 are left.
"""

from __future__ import annotations

import math

LEAST_SHARE, LEAST_SECONDS = 0.02, 1.0  # before that nobody can know
FINEST = 1e-3  # shares that are nearer to each other are one step: at most a thousand are kept
LEAST, MOST = 0.5, 2.0  # of p: beyond that one slow step would make hours of minutes, or none of them
SURE = 0.2  # the share of steps from which p counts in full; below, a few steps say little of the others
ENOUGH = 8  # steps, that their growth is taken from
MOST_GROWTH = 1.5  # of a step: one leap is no trend


class TimeLeft:
    """Hears of shares; what was done before the first is not counted, nor the time before it (reading, compiling)."""

    def __init__(self) -> None:
        self._ways: list[tuple[float, float]] = []  # what is left of the share, and of the rows at their bound
        self._moments: list[float] = []

    def told(self, share: float, now: float, at_bound: float | None = None) -> float | None:
        """Hear that a share was done at a moment; return the seconds left, None while nobody can know.

        ``at_bound`` is another thing that goes down to 0, where all is done whatever the share.
        """
        if not self._ways or 1 - share <= self._ways[-1][0] - FINEST:
            self._ways.append((1 - share, math.nan if at_bound is None else at_bound))
            self._moments.append(now)
        first, last, spent = self._ways[0][0], self._ways[-1][0], self._moments[-1] - self._moments[0]
        if not first > last > 0 or first - last < LEAST_SHARE * first or spent < LEAST_SECONDS:
            return None
        done = len(self._ways) - 1
        left = min(_steps_left([way[k] for way in self._ways]) for k in (0, 1))
        total = spent * (1 + left / done) ** self._power(done / (done + left))
        return max(0.0, total - (now - self._moments[0]))

    def _power(self, share: float) -> float:
        """Return p, from the moment at which half of the steps were done."""
        done = len(self._moments) - 1
        half, spent = done // 2, self._moments[-1] - self._moments[0]
        then = self._moments[half] - self._moments[0]
        if not 0 < then < spent:
            return 1.0
        power = min(max(math.log(then / spent) / math.log(half / done), LEAST), MOST)
        return power if power < 1 else 1.0 + (power - 1.0) * min(1.0, share / SURE)


def _steps_left(way: list[float]) -> float:
    """Return after how many more steps a way is at 0; infinite if it is not known, or goes there no more."""
    done = len(way) - 1
    half = max(1, done // 2)
    later, sooner = (way[-1 - half] - way[-1]) / half, (way[0] - way[half]) / half
    if not later > 0:
        return math.inf
    growth = (later / sooner) ** (1 / (done - half)) if done >= ENOUGH and sooner > 0 else 1.0
    growth = min(max(growth, 1.0), MOST_GROWTH)
    step = later * growth ** (half / 2)
    if growth - 1 < FINEST:
        return way[-1] / step
    return math.log1p(way[-1] * (growth - 1) / step) / math.log(growth)
