"""Scores of the path's points: on the rows left out of training, or on validation data."""

from __future__ import annotations

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.maths.score import scores
from pipeline.path.space import Point, Space
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
            return scores(self.space.margins_on(point, self.validation), self.labels, self.select)
        return scores(point.margins[self.held_out], self.labels, self.select) if self.held_out.size else None
