"""Which C comes next where several runs go along together, or where scores have had their peak.

Before step j each run says which C it would take, if any, and how its step before scored. All take the smallest wish,
so that on the eps-path every run keeps its promise between two C; a run that has come to its end goes on with the
others. They end when nobody has a wish, or when the mean score, of folds, of classes each against the rest, or of both,
has not improved for ``patience`` values of C (``has_peaked``).

The decision is a pure function of what was said. A run that goes on says first what it had said before it was
interrupted, so that all decide again as they did.

Where the C are known beforehand a run need not wait for the others as long as no score of theirs could be the end: by
the scores that it has heard of, the peak is less than ``patience`` steps behind, and later ones only move it on. So
runs that share cores do not wait for the slowest at every C.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.maths.score import LOG_LOSS, Scores, best, mean_scores
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
        self.said: list[Wish] = []
        self.heard = 0  # of all runs: what they said so many times
        self.scores: list[list[Scores | None]] = []  # by step, of all runs, as far as they were heard

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
        self.said.append(Wish(wish, steps[-1].scores if steps else None))
        self.engine.tell(len(self.said) - 1, self.said[-1])
        wishes: list[float | None] = [wish]
        while self.heard < len(self.said) and not self._goes_on(wish, len(steps)):
            wishes = self._hear()
        if self.peaked:
            return None
        return wish if self.spec.grid is not None else min((c for c in wishes if c is not None), default=None)

    def _hear(self) -> list[float | None]:
        """Wait for what all say next; take note of their scores, and return their wishes."""
        said = self.engine.meet(self.heard, self.said[self.heard])
        if self.heard:
            self.scores.append([each.scores for each in said])
        self.heard += 1
        return [each.c for each in said]

    def _goes_on(self, wish: float | None, done: int) -> bool:
        """Tell whether all take the step to a C of the grid, whatever those say that were not heard of yet.

        Rows of one class alone may leave a score undefined at some C, and its run then does not count at any.
        """
        if self.spec.grid is None or wish is None or self.spec.select == LOG_LOSS:
            return False
        known = [scores for step in self.scores for scores in step if scores is not None]
        if not known or any(score is None for scores in known for score in scores.values()):
            return False
        return done <= (best(_means(self.scores), self.spec.select) or 0) + self.spec.patience

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
    means = _means(found)
    top = best(means, spec.select)
    has_moved = any(mean[spec.select] != means[0][spec.select] for mean in means)
    return top is not None and has_moved and len(means) - 1 - top >= spec.patience


def _means(found: Sequence[Sequence[Scores | None]]) -> Sequence[Scores]:
    """Return the mean scores by step; none where a step has no scores."""
    scored = [[scores for scores in step if scores is not None] for step in found]
    return mean_scores(list(zip(*scored, strict=True))) if scored and all(scored) else []
