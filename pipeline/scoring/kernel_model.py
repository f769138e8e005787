"""A kernel's model of a run as the world outside needs it: its support rows, and y_j alpha_j for each.

The score of a row x is sum_j y_j alpha_j K(x_j, x), K = exp(-gamma |x_j - x|^2) + B^2; above 0 it is the positive
class. Distances are over the features that the model knows. A named column that it does not know is ignored; a feature
beyond, in data without names, was 0 in every training row, and counts as that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.reading.block import Block
from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.events import Listener
from pipeline.maths.kernel import Rbf
from pipeline.passes.gather import Gathered
from pipeline.runs.feature_names import names_in
from pipeline.scoring.kernel_scores import Support, without
from pipeline.scoring.model import IGNORED, Scored, TrainedModel


@dataclass(frozen=True, kw_only=True)
class KernelModel(TrainedModel):
    """A model with ``support`` rows over its features, the bias column left out."""

    support: Support
    beyond = "those beyond were 0 in training"

    def scoring_on(self, data: Dataset, listen: Listener) -> tuple[Callable[..., Scored], tuple[Any, ...]]:
        """Return the task that scores a shard of these data, and what it needs beside the shard."""
        support, keep = self.placed(data, self.places_on(data, listen))
        return _shard_scores, (support.kernel, keep, *support.arrays())

    def placed(self, data: Dataset, places: np.ndarray) -> tuple[Support, np.ndarray]:
        """Return the support rows in the data's numbers, and which of the data's columns count.

        ``places`` are the model's features that those of the data are; what the data do not have gets numbers beyond.
        """
        numbers = np.arange(data.n_features, data.n_features + self.known)
        theirs = np.flatnonzero((places != IGNORED) & (places < self.known))
        numbers[places[theirs]] = theirs
        keep = np.append(places != IGNORED, [False] * (data.n_features - places.size))
        return self.support.renumbered(numbers.astype(np.int32)), keep

    def block_scores(self, block: Block, rows: Rows) -> np.ndarray:
        """Return the scores of a block in the model's own numbers; ``rows``, with the bias column, are not needed."""
        del rows
        return self.support.scores((block.indptr, block.indices, block.values), max(self.known, block.largest + 1))


def _shard_scores(shard: Shard, kernel: Rbf, keep: np.ndarray, *support: np.ndarray) -> Scored:
    rows = shard.load()
    matrix = rows.indptr, rows.indices, rows.values
    if not keep.all():
        matrix = without(matrix, keep)
    return Support(kernel, *support).scores(matrix, rows.n_features), np.array(rows.labels)


def support_of(rows: Gathered, alpha: np.ndarray, kernel: Rbf) -> Support:
    """Return gathered rows with their alpha as support rows: in float64, without the bias column."""
    x, matrix = rows.x, (rows.x.indptr, rows.x.indices, rows.x.data)
    if kernel.bias:
        matrix = without(matrix, np.arange(x.shape[1]) < x.shape[1] - 1)
    return Support(kernel, *matrix, rows.labels * alpha)


def kernel_margins(
    engine: Engine, data: Dataset, rows: Gathered, alpha: np.ndarray, kernel: Rbf, other: Dataset
) -> np.ndarray:
    """Return f_i = y_i sum_j y_j alpha_j K(x_j, x_i) of the rows of another data set, whose columns are found by name.

    ``rows`` are those of ``data`` with alpha > 0.
    """
    support, names = support_of(rows, alpha, kernel), names_in(data)
    model = KernelModel(run=Path(data.path), labels=data.labels, feature_names=names, bias=data.bias, support=support)
    return np.concatenate([score * sign for score, sign in model.shard_scores(engine, other)])
