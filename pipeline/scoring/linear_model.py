"""A linear model of a run as the world outside needs it: weights, bias and the user's own names for the two classes.

The score of a row is x_i . w, with a bias column as the last feature where the run had one; above 0 it is the positive
class. A feature that no training row had has weight 0, as w* is a sum of training rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.ingest.assemble import Piece, join
from pipeline.data.reading.block import Block
from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass
from pipeline.events import Listener, silent
from pipeline.maths import csr
from pipeline.runs.feature_names import names_in
from pipeline.scoring.model import Scored, TrainedModel


@dataclass(frozen=True, kw_only=True)
class LinearModel(TrainedModel):
    """A model with weights ``w``, that of the bias column last."""

    w: np.ndarray
    beyond = "those beyond have weight 0"

    @property
    def weights(self) -> np.ndarray:
        """The weights of the features, the bias column left out."""
        return self.w[:-1] if self.bias else self.w

    def weights_on(self, data: Dataset, listen: Listener = silent) -> np.ndarray:
        """Return the vector w with which x_i . w are the scores of these data, or say why there is none."""
        return self.placed(self.places_on(data, listen))

    def placed(self, places: np.ndarray) -> np.ndarray:
        """Return that vector, given which of the model's features each feature of the data is."""
        weights = np.zeros(places.size)
        found = (places >= 0) & (places < self.known)
        weights[found] = self.weights[places[found]]
        return np.append(weights, self.w[-1]) if self.bias else weights

    def scoring_on(self, data: Dataset, listen: Listener) -> tuple[Callable[..., Scored], tuple[Any, ...]]:
        """Return the task that scores a shard of these data, and what it needs beside the shard."""
        return _shard_scores, (self.weights_on(data, listen),)

    def block_scores(self, block: Block, rows: Rows) -> np.ndarray:
        """Return the scores of a block in the model's own numbers; ``rows`` are the same with the bias column."""
        if block.largest < self.known:
            return _scores(rows, self.w)
        return _scores(with_others(block, rows, self.bias, self.known), np.insert(self.w, self.known, 0.0))


def with_others(block: Block, rows: Rows, bias: float, known: int) -> Rows:
    """Return rows with one place, of weight 0, for all that no training row had, and the bias after it."""
    placed = replace(block, indices=np.minimum(block.indices, np.int32(known)))
    return join([Piece(placed, rows.labels, 0, block.n_rows)], bias, known + 1)


def _shard_scores(shard: Shard, w: np.ndarray) -> Scored:
    rows = shard.load()
    return _scores(rows, w), np.array(rows.labels)


def _scores(rows: Rows, w: np.ndarray) -> np.ndarray:
    return csr.row_margins((rows.indptr, rows.indices, rows.values, np.ones(rows.n_rows, np.int8)), w)


def trained_on(data: Dataset, run: Path, c: float, w: np.ndarray) -> LinearModel:
    """Return the model that a run on these data is about to write."""
    return LinearModel(run=run, c=c, labels=data.labels, feature_names=names_in(data), bias=data.bias, w=w)
