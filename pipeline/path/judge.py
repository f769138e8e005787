"""Scores of the path's points: on the rows left out of training, or on validation data."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.maths.score import scores
from pipeline.path.space import Point, Space
from pipeline.runs.contract import KeptModel
from pipeline.runs.held_out import HOLDOUT, VALIDATION, held_out_of
from pipeline.runs.records import Scores


class Judge:
    """Scores points on the same rows, whose labels are read once."""

    def __init__(self, space: Space, validation: Dataset | None, select: str) -> None:
        self.space, self.validation, self.select, state = space, validation, select, space.state
        if validation is not None:
            self.labels = np.concatenate([np.array(shard.load().labels) for shard in validation.shards])
        else:
            self.held_out = state.held_out()
            self.labels = state.labels[self.held_out]

    def scores(self, point: Point) -> Scores | None:
        """Score a point; None where there is nothing to score it on."""
        if self.validation is not None:
            return scores(self.space.margins_on(point.pair, point.c, self.validation), self.labels, self.select)
        return scores(point.margins[self.held_out], self.labels, self.select) if self.held_out.size else None

    def held_out_of(self, model: KeptModel) -> dict[str, Any] | None:
        """Return what run.json says of the scores of a step of this run, whose margins are computed again.

        That is one pass a run; the margins of the best step so far would be one more array, and gone with a kill.
        """
        if self.validation is not None:
            f = self.space.margins_on(self.space.stored(model, 0.0), model.c, self.validation)
            return held_out_of(model.c, VALIDATION, f * self.labels, self.labels)
        f = self.space.margins_again(model)[self.held_out]
        return held_out_of(model.c, HOLDOUT, f * self.labels, self.labels)
