"""How long something will still take, from how much of it was left at some moments.

Both unknowns are taken from the two halves of the steps so far. How many steps are left: a path's steps in log C get
longer by some factor a step, and so does any other way to its end. It ends when all C are done, or when no row is at
its bound any more, which is the way in logs of their number: of the two the shorter. How long they take: steps at a
larger C take longer, so that time goes with a power of their number, t = T k^p; a guess with p = 1 is too low at first
and grows hour by hour. Between two steps the guess counts down.

Replayed from the steps of finished eps-paths, what was said over what was true, as a factor either way: the median over
time, and the most that was said too much (busy machine; before: by a power of the share of log C that was done)

    census_income_kdd 2.1, 2.9 (3.9, 5.5)    imdb50k_uni 1.8, 3.5 (2.8, 15)    mushrooms 1.3, 2.5 (5.7, 13)
    pcmac_asu 2.2, 1.0 (3.7, 16)             digit1 1.1, 1.5 (3.2, 23)         dna_scale 2.8, 4.4 (3.3, 7.5)
    splice_scale, RBF 1.9, 3.6 (4.0, 48)     dna_scale, RBF 1.9, 2.3 (2.9, 17) a9a 1.5, 1.9 (2.0, 2.7)

Of some twenty variants this one was chosen on census (an earlier run), imdb, mushrooms, a9a, digit1 and dna_scale; the
others came after the choice.

`tune` counts the steps that are left, goes back to a smaller C in the end, and each of its steps is taken to be as long
as those before (p = 1). Replayed by the CPU seconds of its steps, on the sets the choice was made on; before: by a
power, of fewer steps

    a9a 2.7, 0.5 (3.7, 1.0)          magic 1.7, 0.9 (2.5, 1.2)           census_income_kdd 2.6, 0.5 (3.7, 1.3)
    imdb50k_uni 2.4, 3.5 (3.3, 5.7)  mushrooms 1.2, 1.3 (1.3, 1.4)       dna_scale 1.7, 2.3 (1.9, 4.6)
    pcmac_asu 1.6, 1.5 (2.0, 1.5)    splice_scale 1.3, 2.7 (1.6, 2.6)

Nobody knows early what is to come: imdb, whose last third of the steps takes nine tenths of the time, has 10 s said
where 360 are left.
"""

from __future__ import annotations

import math

LEAST_SHARE, LEAST_SECONDS = 0.02, 1.0  # before that nobody can know
KEPT = 1024  # steps: of more, every second is forgotten, and so on
LEAST, MOST = 0.5, 2.0  # of p: beyond that one slow step would make hours of minutes, or none of them
SURE = 0.2  # the share of steps from which p counts in full; below, a few steps say little of the others
ENOUGH = 8  # steps, that their growth is taken from
NO_GROWTH, MOST_GROWTH = 1e-6, 1.5  # of a step: one leap is no trend


class TimeLeft:
    """Hears of shares; what was done before the first is not counted, nor the time before it (reading, compiling)."""

    def __init__(self) -> None:
        self._ways: list[tuple[float, float]] = []  # what is left of the share, and of the rows at their bound
        self._moments: list[float] = []
        self._share, self._heard, self._every = -1.0, 0, 1

    def told(
        self, share: float, now: float, at_bound: float | None = None, steps_left: float | None = None
    ) -> float | None:
        """Hear that a share was done at a moment; return the seconds left, None while nobody can know.

        ``at_bound`` is another thing that goes down to 0, where all is done whatever the share; ``steps_left`` are
        those that somebody has counted.
        """
        if share > self._share:
            self._take((1 - share, math.nan if at_bound is None else at_bound), now)
            self._share = share
        first, last, spent = self._ways[0][0], self._ways[-1][0], self._moments[-1] - self._moments[0]
        if not first > last > 0 or first - last < LEAST_SHARE * first or spent < LEAST_SECONDS:
            return None
        done = len(self._ways) - 1
        if steps_left is None:
            left = min(_steps_left(self._ways, which) for which in (0, 1))
            total = spent * (1 + left / done) ** self._power(done / (done + left))
        else:
            total = spent * (1 + steps_left / self._every / done)
        return max(0.0, total - (now - self._moments[0]))

    def _take(self, way: tuple[float, float], now: float) -> None:
        """Note a step, if it is one of those that are kept."""
        if self._heard % self._every == 0:
            self._ways.append(way)
            self._moments.append(now)
        self._heard += 1
        if len(self._ways) > KEPT:
            self._ways, self._moments, self._every = self._ways[::2], self._moments[::2], 2 * self._every

    def _power(self, share: float) -> float:
        """Return p, from the moment at which half of the steps were done."""
        done = len(self._moments) - 1
        half, spent = done // 2, self._moments[-1] - self._moments[0]
        then = self._moments[half] - self._moments[0]
        if not 0 < then < spent:
            return 1.0
        power = min(max(math.log(then / spent) / math.log(half / done), LEAST), MOST)
        return power if power < 1 else 1.0 + (power - 1.0) * min(1.0, share / SURE)


def _steps_left(ways: list[tuple[float, float]], which: int) -> float:
    """Return after how many more steps a way is at 0; infinite if it is not known, or goes there no more."""
    done = len(ways) - 1
    half = max(1, done // 2)
    begin, mid, turn, now = (ways[k][which] for k in (0, half, -1 - half, -1))
    later, sooner = (turn - now) / half, (begin - mid) / half
    if not later > 0:
        return math.inf
    growth = (later / sooner) ** (1 / (done - half)) if done >= ENOUGH and sooner > 0 else 1.0
    growth = min(max(growth, 1.0), MOST_GROWTH)
    step = later * growth ** (half / 2)
    if growth - 1 < NO_GROWTH:
        return now / step
    return math.log1p(now * (growth - 1) / step) / math.log(growth)
