"""Which C are tried, and which is chosen: a lattice of C, and the mean scores of folds over it.

C = 10^(k/2) first, then 10^(k/8) around the best: on one lattice whatever the data, so that tomorrow's C are today's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.dataclass import dataclass
from pipeline.errors import SpecError
from pipeline.maths.score import Scores, best, gain, mean_scores, one_se, standard_errors
from pipeline.runs.classes import AnyRun

COARSELY, FINELY = 2, 8  # values of C a decade: scores change little in less than a factor of 10^(1/8) = 1.33
AROUND = (-2, -1, 1, 2)  # of the fine ones, about the best of the coarse ones
MOST_DECADES = 9  # from the first C: an end for all


@dataclass(frozen=True)
class Curve:
    """Mean scores and their standard errors by C, ascending, from the scores of each fold."""

    cs: tuple[float, ...]
    means: Sequence[Scores]
    errors: Sequence[Scores]
    select: str

    @classmethod
    def of(cls, runs: Sequence[Sequence[AnyRun]], select: str) -> Curve:
        """Put the runs of all folds together; each fold has some, at different C."""
        found = [{step.c: step.scores or {} for run in fold for step in run.steps} for fold in runs]
        cs = sorted(found[0])
        scores = [[fold[c] for c in cs] for fold in found]
        return cls(tuple(cs), mean_scores(scores), standard_errors(scores), select)

    @property
    def best(self) -> int | None:
        """The number of the C with the best mean score."""
        return best(self.means, self.select)

    @property
    def gain(self) -> float:
        """The best mean score, such that more is better."""
        number = self.best
        assert number is not None
        return gain(self.select, self.means[number][self.select] or 0.0)

    @property
    def c_best(self) -> float:
        """The C with the best mean score."""
        number = self.best
        assert number is not None
        return self.cs[number]

    @property
    def c_1se(self) -> float:
        """The smallest C whose mean score is within one standard error of the best."""
        number = one_se(self.cs, self.means, self.errors, self.select)
        assert number is not None
        return self.cs[number]


def lattice(k: int, a_decade: int) -> float:
    """Return 10^(k/a_decade), in four digits, as tables show it."""
    return float(f"{10 ** (k / a_decade):.4g}")


def coarse_grid(first: float, c_max: float | None) -> list[float]:
    """Return the C of the lattice from ``first`` to C_max, or for as many decades as make sense."""
    k = math.ceil(COARSELY * math.log10(first) - 1e-9)
    last = k + COARSELY * MOST_DECADES if c_max is None else math.floor(COARSELY * math.log10(c_max) + 1e-9)
    if last < k:
        raise SpecError(f"C_max = {c_max:g} is below {first:.4g}, where scores begin to matter; raise --c-max")
    return [lattice(number, COARSELY) for number in range(k, last + 1)]


def fine_grid(c: float, coarse: Sequence[float]) -> list[float]:
    """Return the C around one of the coarse ones, none below the first."""
    k = round(COARSELY * math.log10(c)) * (FINELY // COARSELY)
    return [fine for fine in (lattice(k + more, FINELY) for more in AROUND) if fine > coarse[0]]
