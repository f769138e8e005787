"""The time left as it is shown: it falls as the guess does, and hardly ever rises.

A guess (``time_left``) goes up and down with every step. Who watches it wants to know whether to wait, and a number
that rises says that it was wrong before. So what is shown stays where it is while the guess is above it, and rises only
when the guess is above twice of it: then it is wrong, and says so. It is a round number, since it is known no better:
10 min where the guess is 12.

Twice, since a guess is off by about that: less would be a rise for nothing, more a number that is known to be wrong.
"""

from __future__ import annotations

from pipeline.time_left import TimeLeft

RISES = 2.0  # times what is shown
A_MOMENT = 5.0  # seconds: below that it may rise, nobody minds


class Steady:
    """Hears what a guess hears, and returns what is to be shown."""

    def __init__(self, guess: TimeLeft) -> None:
        self._guess = guess
        self._shown: float | None = None

    def told(self, share: float, now: float, *way: float | None) -> float | None:
        """Hear what ``TimeLeft.told`` does; return the seconds to show, None while nobody can know."""
        guess = self._guess.told(share, now, *way)
        if guess is not None:
            wrong = self._shown is None or guess > RISES * max(self._shown, A_MOMENT)
            self._shown = roughly(guess) if self._shown is None or wrong else min(self._shown, roughly(guess))
        return self._shown


def roughly(seconds: float) -> float:
    """Return seconds, minutes or hours as a round number, in seconds: to 5 of them from 10 on."""
    unit = next((size for size in (3600.0, 60.0) if seconds > 1.5 * size), 1.0)
    count = seconds / unit
    return unit * (5 * round(count / 5) if count >= 10 else max(1, round(count)))
