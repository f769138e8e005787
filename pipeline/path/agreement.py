"""Which C comes next where several runs go along together, or where scores have had their peak.

Before step j each run says which C it would take, if any, and how its step before scored. All take the smallest wish,
so that on the eps-path every run keeps its promise between two C; a run that has come to its end goes on with the
others. They end when nobody has a wish, or when the mean score, of folds, of classes each against the rest, or of both,
has not improved for ``patience`` values of C (``has_peaked``).

The decision is a pure function of what was said. A run that goes on says first what it had said before it was
interrupted, so that all decide again as they did.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.maths.score import Scores, best, mean_scores
from pipeline.runs.records import StepRecord
from pipeline.spec import PathSpec


@dataclass(frozen=True)
class Wish:
    """What a run says before a step: the C that it would take, None at its end, and the scores of its last step."""

    c: float | None
    scores: Scores | None


class Agreement:
    """One run's part in what all decide."""

    def __init__(self, engine: Engine, spec: PathSpec) -> None:
        self.engine, self.spec = engine, spec
        self.scores: list[list[Scores | None]] = []  # by step, of all runs
        self.asked = 0

    def again(self, steps: Sequence[StepRecord], ended: bool = False) -> None:
        """Say what was said before these steps, and after them if they were the last."""
        for k, step in enumerate(steps):
            self.next(step.c, steps[:k])
        if ended:
            self.next(None, steps)

    def next(self, wish: float | None, steps: Sequence[StepRecord]) -> float | None:
        """Return the C that all take after these steps; None if they end."""
        if self.spec.grid is not None and not self.spec.patience:
            return wish  # the same for all: nobody need wait
        said = self.engine.meet(self.asked, Wish(wish, steps[-1].scores if steps else None))
        self.asked += 1
        if steps:
            self.scores.append([each.scores for each in said])
        if self.peaked:
            return None
        return min((each.c for each in said if each.c is not None), default=None)

    @property
    def peaked(self) -> bool:
        """Whether the score has not improved for as many values of C as patience lasts."""
        return has_peaked(self.scores, self.spec)


def has_peaked(found: Sequence[Sequence[Scores | None]], spec: PathSpec) -> bool:
    """Tell whether a score, the mean over runs, has not improved for ``patience`` steps; given by step, then by run.

    At small C a model may say one class of every row, and its score stays what it is: patience begins when it moves.
    """
    if not spec.patience:
        return False
    scored = [[scores for scores in step if scores is not None] for step in found]
    if not scored or not all(scored):
        return False
    means = mean_scores(list(zip(*scored, strict=True)))
    top = best(means, spec.select)
    has_moved = any(mean[spec.select] != means[0][spec.select] for mean in means)
    return top is not None and has_moved and len(means) - 1 - top >= spec.patience
