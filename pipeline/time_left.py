"""How long something will still take, from the shares of it that were done at some moments.

Steps at a larger C take longer, so that time goes with a power of the share u, t = T u^p. A guess with p = 1 is too
low at first and grows hour by hour; after a first step that had to compile it is far too high. Here the moment at which
half of what is done was done says what p is. Between two shares the guess counts down.

Measured on eps-paths. census_income_kdd, 32 s, 14 of them compiling: 14 s are guessed where 13 are left, and 290 with
p = 1. imdb50k_uni, 143 s, which jumps from a share of 0.73 to the end: after 29 s 62 where 114 are left (23 with
p = 1), after 86 s 107 where 57 are (44).
"""

from __future__ import annotations

import math
from bisect import bisect_left

LEAST_SHARE, LEAST_SECONDS = 0.02, 1.0  # before that nobody can know
FINEST = 1e-3  # shares that are nearer to each other are one: at most a thousand are kept
LEAST, MOST = 0.2, 2.0  # of p: paths may end long before C_max, and beyond it one slow step would make hours of minutes
SURE = 0.2  # the share from which p counts in full; below, a few steps say little of the others


class TimeLeft:
    """Hears of shares; what was done before the first is not counted, nor the time before it (reading, compiling)."""

    def __init__(self) -> None:
        self._shares: list[float] = []
        self._moments: list[float] = []

    def told(self, share: float, now: float) -> float | None:
        """Hear that a share was done at a moment; return the seconds left, None while nobody can know."""
        if not self._shares or share >= self._shares[-1] + FINEST:
            self._shares.append(share)
            self._moments.append(now)
        first, last = self._shares[0], self._shares[-1]
        spent = self._moments[-1] - self._moments[0]
        if not first < last < 1 or spent < LEAST_SECONDS:
            return None
        done = (last - first) / (1 - first)
        if done < LEAST_SHARE:
            return None
        total = spent * done ** -self._power(done, spent)
        return max(0.0, total - (now - self._moments[0]))

    def _power(self, done: float, spent: float) -> float:
        """Return p, from the first moment at which half of what is done was done."""
        first, last = self._shares[0], self._shares[-1]
        k = bisect_left(self._shares, (first + last) / 2)
        half, then = (self._shares[k] - first) / (last - first), self._moments[k] - self._moments[0]
        if not 0 < half < 1 or not 0 < then < spent:
            return 1.0
        power = min(max(math.log(then / spent) / math.log(half), LEAST), MOST)
        return power if power < 1 else 1.0 + (power - 1.0) * min(1.0, done / SURE)
