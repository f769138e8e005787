"""Scores of the path's points: on the rows left out of training, or on validation data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.events import Listener, Note
from pipeline.maths.score import WEIGHTED, Scores, scores
from pipeline.path.space import Point, Space
from pipeline.runs.contract import KeptModel
from pipeline.runs.held_out import HOLDOUT, VALIDATION, held_out_of


def mention_undefined(found: Sequence[Scores | None], chosen: int | None, select: str, listen: Listener) -> None:
    """Say so if no step is the best for want of a score that is defined."""
    if any(found) and chosen is None:
        name = select.replace("_", " ")
        listen(Note(f"{name} is not defined on the rows that were scored (a class is missing): no best step"))


class Judge:
    """Scores points on the same rows, whose labels, and costs where these count, are read once."""

    def __init__(self, space: Space, validation: Dataset | None, select: str) -> None:
        self.space, self.validation, self.select, state = space, validation, select, space.state
        if validation is not None:
            parts = [shard.load() for shard in validation.shards]
            self.labels = np.concatenate([part.labels for part in parts])
            self.costs = None
            if select == WEIGHTED:
                negative, positive = state.class_weights
                costs = np.concatenate([part.costs for part in parts])
                self.costs = costs * np.where(self.labels == 1, positive, negative)
        else:
            self.held_out, self.labels = state.left_out(state.labels)
            self.costs = state.left_out_costs

    def scores(self, point: Point) -> Scores | None:
        """Score a point; None where there is nothing to score it on."""
        if self.validation is not None:
            f = self.space.margins_on(point.pair, point.c, self.validation)
        elif self.held_out.size:
            f = point.margins[self.held_out]
        else:
            return None
        return scores(f, self.labels, self.select, self.costs)

    def held_out_of(self, model: KeptModel) -> dict[str, Any] | None:
        """Return what run.json says of the scores of a step of this run, whose margins are computed again.

        That is one pass a run; the margins of the best step so far would be one more array, and gone with a kill.
        """
        if self.validation is not None:
            f = self.space.margins_on(self.space.stored(model, 0.0), model.c, self.validation)
            return held_out_of(model.c, VALIDATION, f * self.labels, self.labels)
        f = self.space.margins_again(model)[self.held_out]
        return held_out_of(model.c, HOLDOUT, f * self.labels, self.labels)
