"""The time left as it is shown: it falls as the guess does, and hardly ever rises.

A guess (``time_left``) goes up and down with every step. Who watches it wants to know whether to wait, and a number
that rises says that it was wrong before. So what is shown stays where it is while the guess is above it, and rises only
when the guess has been above twice of it for a while: then it is wrong, and says so. Twice, since a guess is off by
about that; a while, since one slow step makes a guess that is too high. What is shown is a round number, since it is
known no better: 10 min where the guess is 12.
"""

from __future__ import annotations

from pipeline.time_left import TimeLeft

RISES = 2.0  # times what is shown
A_WHILE = 0.1  # of the time so far
A_MOMENT = 5.0  # seconds: less than that is no matter


class Steady:
    """Hears what a guess hears, and returns what is to be shown."""

    def __init__(self, guess: TimeLeft) -> None:
        self._guess = guess
        self._held: float | None = None
        self._begun: float | None = None
        self._right = 0.0  # when what is held was last as good as the guess

    def told(self, share: float, now: float, *way: float | None) -> float | None:
        """Hear what ``TimeLeft.told`` does; return the seconds to show, None while nobody can know."""
        self._begun = now if self._begun is None else self._begun
        guess = self._guess.told(share, now, *way)
        if guess is not None:
            self._hold(guess, now, A_WHILE * (now - self._begun))
        return None if self._held is None else roughly(self._held)

    def _hold(self, guess: float, now: float, a_while: float) -> None:
        """Hold a guess, if it is below the one that is held, or has been far above it for a while."""
        if self._held is None or guess < self._held:
            self._held = guess
        if guess <= RISES * max(self._held, A_MOMENT):
            self._right = now
        elif now - self._right > a_while:
            self._held, self._right = guess, now


def roughly(seconds: float) -> float:
    """Return seconds, minutes or hours as a round number, in seconds: to 5 of them from 10 on."""
    unit = next((size for size in (3600.0, 60.0) if seconds > 1.5 * size), 1.0)
    count = seconds / unit
    return unit * (5 * round(count / 5) if count >= 10 else max(1, round(count)))
