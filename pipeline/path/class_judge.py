"""Scores of the models of several classes together: on the rows left out of training, or on validation data.

They are made when all classes have a model for a C, from the models as they are stored: what a run says of itself does
not depend on how it got there. In memory are a few numbers a row, and the scores of as many classes as fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.reading.labels import UNKNOWN
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import DataError
from pipeline.maths.class_scores import class_scores
from pipeline.maths.score import WEIGHTED, Scores
from pipeline.runs.held_out import classes_held_out_of
from pipeline.scoring.classes_model import ClassesModel
from pipeline.spec import PathSpec
from pipeline.working.split import split_keys, split_of

SCORE_BYTES = 128 << 20  # of scores of some classes that are in memory


@dataclass(frozen=True)
class SplitRows:
    """Which rows of a data set of several classes are left out of training, and how many of each class are not."""

    held_out: np.ndarray
    trained: np.ndarray


def split_rows(engine: Engine, data: Dataset, spec: PathSpec) -> SplitRows:
    """Find out which rows are left out of training, in one pass; raise DataError if nothing can come of it."""
    parts = list(engine.stream(_shard_keys, data.shards, spec))
    codes, hashes, classes = (np.concatenate([part[k] for part in parts]) for k in range(3))
    held_out = np.zeros(data.n_rows, np.bool_)
    if spec.splits:
        split = split_of(spec, hashes, classes, partial(np.empty, data.n_rows), [slice(0, data.n_rows)])
        held_out = split.left_out(hashes, classes)
    counts = np.bincount(codes[~held_out], minlength=len(data.classes))
    part, cure = ("the hold-out", "another --holdout") if spec.fold is None else (_fold(spec.fold), "fewer folds")
    if spec.splits and not held_out.any():
        raise DataError(f"{part} has none of the {data.n_rows:,} rows to be scored on; use {cure}", path=data.path)
    if not counts.all():
        name, rows = data.classes[int(np.argmin(counts))], data.class_counts[int(np.argmin(counts))]
        problem = f"class {name} has no row" if not rows else f"{part} has all rows of class {name}"
        cure = f"ingest the data again without it, or more rows of it; or use {cure}"
        raise DataError(f"{problem}, and none to train on are left; {cure}", path=data.path)
    return SplitRows(held_out, counts)


def _fold(fold: tuple[int, int]) -> str:
    return f"fold {fold[0] + 1} of {fold[1]} (rows are assigned by what is in them)"


def _shard_keys(shard: Shard, spec: PathSpec) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = shard.load()
    hashes, classes = split_keys(rows, spec.seed) if spec.splits else (np.empty(0, np.uint64), np.empty(0, np.int32))
    return np.array(rows.labels), np.array(hashes), np.array(classes)


def _shard_costs(shard: Shard) -> np.ndarray:
    return np.array(shard.load().costs)


class ClassJudge:
    """Scores models on the same rows: those left out, or all of ``validation`` whose class is known.

    ``weights`` are those of the classes, where rows are to count as they do in training.
    """

    def __init__(
        self,
        engine: Engine,
        data: Dataset,
        split: SplitRows,
        validation: Dataset | None,
        weights: Sequence[float] | None,
    ) -> None:
        self.engine, self.data = engine, data if validation is None else validation
        self.weights = np.ones(len(data.classes)) if weights is None else np.array(weights)
        self.wanted = split.held_out if validation is None else np.ones(validation.n_rows, np.bool_)

    def scores(self, model: ClassesModel, select: str) -> Scores | None:
        """Score the models of a C; None where there is nothing to score them on."""
        if not self.wanted.any():
            return None
        codes = np.concatenate([found for _, found in self._parts(model.some(0, 1))])
        known, costs = codes != UNKNOWN, None
        if select == WEIGHTED:
            parts = list(self.engine.stream(_shard_costs, self.data.shards))
            costs = np.concatenate(parts)[self.wanted][known] * self.weights[codes[known]]
        columns = (column[known] for column in self._columns(model, codes.size))
        return class_scores(columns, codes[known], select, costs)

    def held_out_of(self, model: ClassesModel, of: str) -> dict[str, Any] | None:
        """Return what run.json says of what the models of a C call the rows; None where there is nothing to say."""
        codes = np.concatenate([found for _, found in self._parts(model.some(0, 1))])
        known = codes != UNKNOWN
        columns = (column[known] for column in self._columns(model, codes.size))
        return classes_held_out_of(model.c, of, columns, codes[known], len(model.parts))

    def _columns(self, model: ClassesModel, rows: int) -> Iterator[np.ndarray]:
        """Yield the scores of all rows, class after class; a pass is made for as many as fit."""
        count = max(1, SCORE_BYTES // (8 * max(1, rows)))
        for first in range(0, len(model.parts), count):
            some = model.some(first, first + count)
            yield from np.concatenate([scores for scores, _ in self._parts(some)]).T

    def _parts(self, model: ClassesModel) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return model.shard_scores(self.engine, self.data, wanted=self.wanted)
