"""How long something will still take, from how much of it was left at some moments.

How many steps are left is taken from the two halves of the steps so far: a path's steps in log C get longer by some
factor a step, and so does any other way to its end. It ends when all C are done, or when no row is at its bound any
more, which is the way in logs of their number: of the two the shorter. A few steps say little of that, so that the
number which is usual for an eps (``maths/eps_grid``) counts beside it, by weights that go from the one to the other.
How long they take: steps at a larger C take longer, so that time goes with a power of their number, t = T k^p. The
first steps do not know p: what is expected of a path is rather more than usual (1.1 to 1.7, of imdb50k_uni 2.3), so
that a guess is too high at first and falls, where one that is too low grows hour by hour. Steps to come are not taken
to be shorter than the last ones were. A few steps far longer than all others say nothing of them: they compiled.
Between two steps the guess counts down, by one step at most. ``follow``: folds come after a path, and each takes about
as long. ``steady`` makes of guesses what is shown.

`python -m tests.bench.time_left` replays finished eps-paths, and makes paths with folds and searches. By the clock of a
busy machine: by how much what is shown rises above the least before, and the factor by which it is off, either way, the
median over time (in brackets: of the same runs before, when p was expected to be 1 and every guess was shown)

    chosen on   a9a 1.0, 3.2 (1.5, 1.6)          census_income_kdd 1.0, 2.0 (2.2, 1.3)  dna_scale 1.0, 1.6 (4.7, 2.0)
                imdb50k_uni 2.0, 1.8 (6.2, 1.3)  satimage_trn 2.2, 1.4 (3.0, 1.7)  splice_scale 1.0, 6.7 (1.8, 3.6)
          RBF   dna_scale 1.0, 1.6 (4.9, 1.9)    satimage_trn 1.0, 1.2 (2.7, 1.3)  splice_scale 1.0, 1.4 (4.0, 2.2)
    came after  bcd 2.5, 1.9 (2.7, 1.7)          digit1 1.0, 1.9 (2.1, 1.6)        kddcup99_10pct 1.0, 3.1 (2.6, 1.7)
                magic 1.0, 2.7 (1.4, 1.4)        mushrooms 1.0, 1.1 (3.8, 1.2)     nycflights13 1.0, 5.9 (5.6, 8.8)
                pcmac_asu 1.0, 1.9 (1.5, 2.1)    shuttle_trn 1.0, 3.1 (3.8, 2.8)
          RBF   digit1 1.5, 1.4 (2.3, 1.7)       mushrooms 2.3, 1.3 (22, 1.4)

So it is far steadier, geometric means 1.2 (3.1) and 1.2 (3.2), and a little less near, 2.0 (1.8) and 2.2 (2.0): where
steps get no slower, or are fewer than usual, it is too high for long. splice_scale has 60 steps where 158 are usual,
and takes half a second. mushrooms with RBF does not quite come after: ``steady`` waits since it rose 5 times.

Since then steps to come are not taken to be shorter than the last ones, for nycflights13 alone, whose steps are 0.1 s
at C = 0.5 and 46 s at 5,000, and of which 10 s had been shown for the last 90. On a quiet machine the linear runs above
rise 1.0 times but for bcd 2.5, dna_scale 2.2, imdb50k_uni 2.2 and nycflights13 4.0 (with a hold-out 7.5; 2.8 before),
and are off by 1.1 to 3.4, splice_scale by 6.9 (geometric means 1.3 and 2.1). RBF and what follows were not replayed.

`tune` counts the steps that are left, goes back to a smaller C in the end, and each of its steps is taken to be as long
as those before (p = 1). Before it knows how many C there are it takes as many as usual (``path/tune``), a number that
was chosen when those of all sets had been seen (in brackets: other runs, before)

    chosen on   a9a 1.0, 2.0 (3.0, 2.4)          census_income_kdd 1.0, 1.6 (12, 2.1)  dna_scale 1.0, 1.4 (9.7, 2.0)
                imdb50k_uni 1.0, 1.6 (12, 2.1)   splice_scale 1.0, 2.0 (5.2, 1.8)
    came after  bcd 1.0, 2.0 (3.8, 1.7)          digit1 1.0, 1.8 (7.9, 1.7)        magic 1.0, 1.6 (8.5, 1.9)
                mushrooms 1.0, 1.3 (17, 1.3)     pcmac_asu 1.0, 1.2 (1.6, 1.8)     shuttle_trn 1.0, 1.6

and paths with five folds, for which nothing was chosen: a9a 1.0, 1.2 (1.2, 5.9), digit1 2.0, 1.3, dna_scale 2.1, 1.7
(3.6, 15), magic 1.0, 1.3, pcmac_asu 1.0, 1.7, splice_scale 3.0, 1.2 (1.2, 6.3). Before, nobody knew that folds follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

LEAST_SHARE, LEAST_SECONDS = 0.02, 1.0  # before that nobody can know
KEPT = 1024  # steps: of more, every second is forgotten, and so on
LEAST_COUNTED = 0.1  # of the steps, where they are counted: folds end together, and the first are no measure
SLOWER = 1.6  # p of a path before it is known: rather too long at first than longer and longer
LEAST, MOST = 0.5, 2.0  # of p: beyond that one slow step would make hours of minutes, or none of them
SURE = 0.8  # the share of steps from which p is what it was so far; it says little of those that are much slower
LATELY = 7  # steps; those to come are not shorter than their median, which some that compiled do not change
ENOUGH = 8  # steps, that their growth is taken from, and that some of them are left out
LIKE_NO_OTHER, MOST_OF_THEM = 3.0, 3  # times the next longest; how many
NO_GROWTH, MOST_GROWTH = 1e-6, 1.5  # of a step: one leap is no trend


class TimeLeft:
    """Hears of shares; what was done before the first is not counted, nor the time before it (reading, compiling).

    ``power`` is the p that is expected: 1 where every part takes as long as any other.
    """

    def __init__(self, power: float = 1.0) -> None:
        self._expected = power
        self._ways: list[tuple[float, float]] = []  # what is left of the share, and of the rows at their bound
        self._moments: list[float] = []
        self._share, self._heard, self._every = -1.0, 0, 1

    def told(
        self,
        share: float,
        now: float,
        at_bound: float | None = None,
        steps_left: float | None = None,
        usual_left: float | None = None,
        follow: float | None = None,
    ) -> float | None:
        """Hear that a share was done at a moment; return the seconds left, None while nobody can know.

        ``at_bound`` is another thing that goes down to 0, where all is done whatever the share; ``steps_left`` are
        those that somebody has counted, ``usual_left`` those that are usually to come. ``follow`` is how many times
        all of this is to be done once more when it is done; the share is one of all of that.
        """
        again = follow or 0.0
        if share > self._share:
            self._take((1 - share * (1 + again), math.nan if at_bound is None else at_bound), now)
            self._share = share
        first, last, spent = self._ways[0][0], self._ways[-1][0], self._moments[-1] - self._moments[0]
        if not first > last > 0 or first - last < LEAST_SHARE * first or spent < LEAST_SECONDS:
            return None
        done = len(self._ways) - 1
        if steps_left is not None:
            if done < LEAST_COUNTED * (done + steps_left / self._every):
                return None
            left = steps_left / self._every
            to_come = spent * left / done
        else:
            left = min(_steps_left(self._ways, which) for which in (0, 1))
            if usual_left is not None:
                left = _between(left, min(usual_left / self._every, _as_long(self._ways)), done)
            steps = self._usual_steps()
            power = self._power(steps, done / (done + left))
            to_come = sum(steps) * ((1 + left / len(steps)) ** power - 1)
            to_come = max(to_come, left * median(steps[-LATELY:]))
            to_come += again * (sum(steps) + to_come)
        waited = now - self._moments[-1]
        return to_come - min(waited, to_come / max(1.0, left))

    def _take(self, way: tuple[float, float], now: float) -> None:
        """Note a step, if it is one of those that are kept."""
        if self._heard % self._every == 0:
            self._ways.append(way)
            self._moments.append(now)
        self._heard += 1
        if len(self._ways) > KEPT:
            self._ways, self._moments, self._every = self._ways[::2], self._moments[::2], 2 * self._every

    def _usual_steps(self) -> list[float]:
        """Return how long the steps took, without a few that are like no other: they compiled, or had to wait."""
        found = [after - before for before, after in pairwise(self._moments)]
        longest = sorted(found, reverse=True)[: MOST_OF_THEM + 1]
        leaps = [more for more, less in pairwise(longest) if more > LIKE_NO_OTHER * less]
        return [step for step in found if step < leaps[-1]] if leaps and len(found) >= ENOUGH else found

    def _power(self, steps: Sequence[float], share: float) -> float:
        """Return p: what is expected, and more and more what it was so far, by how long the first half took."""
        half = len(steps) // 2
        then, spent = sum(steps[:half]), sum(steps)
        if not 0 < then < spent:
            return self._expected
        found = min(max(math.log(then / spent) / math.log(half / len(steps)), LEAST), MOST)
        return self._expected + (found - self._expected) * min(1.0, share / SURE)


def _between(found: float, usual: float, done: int) -> float:
    """Return how many steps are left from two guesses: what is usual counts for as many steps as it says are left."""
    weight = done / (done + usual)
    return float(found**weight * usual ** (1 - weight))


def _as_long(ways: list[tuple[float, float]]) -> float:
    """Return how many steps are left of the share if none is longer than those of the last half."""
    half = max(1, (len(ways) - 1) // 2)
    return ways[-1][0] * half / (ways[-1 - half][0] - ways[-1][0])


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
