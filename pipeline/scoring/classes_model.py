"""The models of several classes, one against the rest each, as one: the largest score of a row says its class.

Of equal scores the first class's counts, as in scikit-learn's LinearSVC and in LIBLINEAR. Linear models stand side by
side in a matrix of d rows, a column a class, so that an entry of a row finds the weights of all classes in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.data.reading.block import Block
from pipeline.data.reading.labels import UNKNOWN, LabelMap, label_text
from pipeline.data.reading.layout import listed
from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.events import Listener, Note, silent
from pipeline.maths import csr
from pipeline.maths.kernel import Rbf
from pipeline.passes.gather import picked
from pipeline.scoring.kernel_model import KernelModel
from pipeline.scoring.kernel_scores import Support, without
from pipeline.scoring.linear_model import LinearModel, with_others
from pipeline.scoring.model import Scored, TrainedModel
from pipeline.scoring.watch import Piece, Watch

PIECE_SCORES = 1 << 22  # that are made at a time: 32 MB
COLUMNS = 8  # that the loop over classes takes at a time


@dataclass(frozen=True, kw_only=True)
class ClassesModel(TrainedModel):
    """The model of step ``step`` of a run: ``parts[k]`` tells the k-th of the classes from the rest."""

    parts: tuple[LinearModel | KernelModel, ...]

    @classmethod
    def of(
        cls, parts: tuple[LinearModel | KernelModel, ...], classes: tuple[str, ...], run: Path, step: int, c: float
    ) -> ClassesModel:
        """Put models of the same rows together."""
        labels, names = LabelMap((), (), classes=classes), parts[0].feature_names
        return cls(run=run, step=step, c=c, labels=labels, feature_names=names, bias=parts[0].bias, parts=parts)

    @property
    def beyond(self) -> str:  # type: ignore[override]
        """What becomes of features that no training row had."""
        return self.parts[0].beyond

    @property
    def names(self) -> tuple[str, ...]:
        """The classes, in the order of the parts."""
        return self.labels.classes

    @property
    def w(self) -> np.ndarray:
        """The weights of linear models, a row a class."""
        return np.stack([part.w for part in self.parts if isinstance(part, LinearModel)])

    @cached_property
    def _beside(self) -> np.ndarray:
        return side_by_side([part.w for part in self.parts if isinstance(part, LinearModel)])

    def some(self, first: int, stop: int) -> ClassesModel:
        """Return the models of some classes only."""
        return replace(self, parts=self.parts[first:stop])

    def codes_on(self, data: Dataset, listen: Listener) -> np.ndarray:
        """Return the class of each code of the data (or of signs -1 and +1), by its name; ``UNKNOWN`` for others."""
        known = {label_text(name): k for k, name in enumerate(self.names)}
        sides: list[tuple[str, ...]] = [(name,) for name in data.classes]
        sides = sides or [data.labels.negative, data.labels.positive]
        found = [known.get(label_text(side[0]), UNKNOWN) if len(side) == 1 else UNKNOWN for side in sides]
        new = [label for side, code in zip(sides, found, strict=True) if code == UNKNOWN for label in side]
        if new:
            listen(Note(f"{data.path}: labels the run does not know: {listed(new)}; their rows are not judged"))
        return np.array(found, np.int32)

    def shard_scores(
        self,
        engine: Engine,
        data: Dataset,
        listen: Listener = silent,
        watch: Watch | None = None,
        wanted: np.ndarray | None = None,
    ) -> Iterator[Scored]:
        """Yield the scores of rows (those that are ``wanted``), a column a class, and their codes, part after part.

        ``watch`` is shown all rows.
        """
        places, codes = self.places_on(data, listen), self.codes_on(data, listen)
        rows = max(1, PIECE_SCORES // len(self.parts))
        pieces: list[Piece] = [
            (shard, first, min(shard.n_rows, first + rows))
            for shard in data.shards
            for first in range(0, shard.n_rows, rows)
        ]
        chosen = np.empty(0, np.bool_) if wanted is None else wanted
        task, needed = self._task(data, places)
        if watch is None:
            return engine.stream(task, pieces, chosen, codes, *needed)
        return watch.over(engine, pieces, places, task, (chosen, codes, *needed))

    def _task(self, data: Dataset, places: np.ndarray) -> tuple[Callable[..., Scored], tuple[Any, ...]]:
        """Return what scores a piece, and what it needs besides."""
        if isinstance(self.parts[0], LinearModel):
            beside = side_by_side([part.placed(places) for part in self.parts if isinstance(part, LinearModel)])
            return _linear_scores, (len(self.parts), beside)
        placed = [part.placed(data, places) for part in self.parts if isinstance(part, KernelModel)]
        arrays = [array for support, _ in placed for array in support.arrays()]
        return _kernel_scores, (placed[0][0].kernel, placed[0][1], *arrays)

    def block_scores(self, block: Block, rows: Rows) -> np.ndarray:
        """Return the scores of a block in the model's own numbers; ``rows`` are the same with the bias column."""
        if isinstance(self.parts[0], KernelModel):
            return np.stack([part.block_scores(block, rows) for part in self.parts], axis=1)
        beside = self._beside
        if block.largest >= self.known:
            rows = with_others(block, rows, self.bias, self.known)
            beside = np.insert(beside, self.known, 0.0, axis=0)
        return _products(rows, beside, len(self.parts))

    def _check_labels(self, data: Dataset, listen: Listener) -> None:
        """Any labels will do: ``codes_on`` says which are not known."""


def said_codes(scores: np.ndarray) -> np.ndarray:
    """Return the class that each row's scores say: of equal ones the first."""
    return np.argmax(scores, axis=1).astype(np.int32)


def side_by_side(vectors: list[np.ndarray]) -> np.ndarray:
    """Return vectors as columns, filled up to as many as the loop over them takes at a time."""
    found = np.zeros((vectors[0].size, -(-len(vectors) // COLUMNS) * COLUMNS))
    for k, vector in enumerate(vectors):
        found[:, k] = vector
    return found


def _products(rows: Rows, beside: np.ndarray, count: int) -> np.ndarray:
    return np.ascontiguousarray(csr.products_of_pairs(rows.indptr, rows.indices, rows.values, beside)[:count].T)


def _linear_scores(piece: Piece, wanted: np.ndarray, codes: np.ndarray, count: int, beside: np.ndarray) -> Scored:
    rows = _piece_rows(piece, wanted)
    return _products(rows, beside, count), _codes(rows, codes)


def _kernel_scores(
    piece: Piece, wanted: np.ndarray, codes: np.ndarray, kernel: Rbf, keep: np.ndarray, *arrays: np.ndarray
) -> Scored:
    rows = _piece_rows(piece, wanted)
    matrix = rows.indptr, rows.indices, rows.values
    if not keep.all():
        matrix = without(matrix, keep)
    supports = [Support(kernel, *arrays[k : k + 4]) for k in range(0, len(arrays), 4)]
    return np.stack([each.scores(matrix, rows.n_features) for each in supports], axis=1), _codes(rows, codes)


def _piece_rows(piece: Piece, wanted: np.ndarray) -> Rows:
    """Return the rows of a piece of a shard, or those of them that are wanted."""
    shard, first, stop = piece
    rows = shard.load().part(first, stop)
    if not wanted.size:
        return rows
    chosen = np.flatnonzero(wanted[shard.first_row + first : shard.first_row + stop])
    indptr, indices, values = picked((rows.indptr, rows.indices, rows.values), chosen)
    about = rows.labels[chosen], rows.costs[chosen], rows.norms[chosen]
    return Rows(indptr, indices, values, *about, rows.n_features)


def _codes(rows: Rows, codes: np.ndarray) -> np.ndarray:
    signs = rows.labels.dtype == np.int8
    return codes[(rows.labels + 1) // 2 if signs else rows.labels]
