"""Scores and classes of all rows, in row order, in one pass, by the models of several classes.

The file has a score column a class, ``score_`` and its name, then label and truth, as the classes are called, then if
they are asked for a probability column a class. Its row
groups have as many rows as ``CELLS`` scores make, whatever the parts are, so its bytes depend on the rows and the model
alone. In memory are the results of a few parts, and how often each class was met, said and right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.data.dataset import Dataset
from pipeline.data.reading.labels import UNKNOWN
from pipeline.engine.engine import Engine
from pipeline.errors import DataError
from pipeline.events import Listener, Progress, silent
from pipeline.files import replacing
from pipeline.maths.calibration import Calibration, class_probabilities
from pipeline.maths.class_scores import label_scores
from pipeline.scoring.classes_model import ClassesModel, said_codes
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.scoring.watch import Watch
from pipeline.use.tables import numbers, texts

CELLS = 1 << 22  # scores in a row group of Parquet: 32 MB


@dataclass(frozen=True)
class PredictedClasses:
    """Consecutive rows: ``scores`` has a column a class; ``codes`` are the data's own classes, or ``UNKNOWN``."""

    first_row: int
    scores: np.ndarray
    codes: np.ndarray
    names: tuple[str, ...]

    @property
    def label(self) -> np.ndarray:
        """The predicted class: that of the largest score, of equal ones the first."""
        return np.array(self.names)[said_codes(self.scores)]

    @property
    def truth(self) -> np.ndarray:
        """The class the data have, by the same names; None where they do not say."""
        return np.array([*self.names, None], dtype=object)[self.codes]


@dataclass(frozen=True)
class JudgedClasses:
    """How many rows were predicted, how many of them have a label the model knows, and the scores on these."""

    rows: int
    labelled: int
    scores: dict[str, float | None]


def predict_classes(
    engine: Engine,
    model: ClassesModel,
    data: Dataset | RowsToScore,
    listen: Listener = silent,
    watch: Watch | None = None,
) -> Iterator[PredictedClasses]:
    """Predict every row of ``data``, a part at a time in row order; ``watch`` is shown the rows."""
    parts = data.parts(watch) if isinstance(data, RowsToScore) else model.shard_scores(engine, data, listen, watch)
    row = 0
    for scores, codes in parts:
        finite = np.isfinite(scores).all(axis=1)
        if not finite.all():
            problem = f"a score of it by {model.run} is beyond float64's range; scale the features, and train again"
            raise DataError(problem, path=data.path, row=row + int(np.argmin(finite)) + 1)
        yield PredictedClasses(row, scores, codes, model.classes)
        row += codes.size


def write_class_predictions(
    engine: Engine,
    model: ClassesModel,
    data: Dataset | RowsToScore,
    out: Path,
    listen: Listener = silent,
    calibration: Sequence[Calibration] | None = None,
    watch: Watch | None = None,
) -> JudgedClasses:
    """Write scores, label and truth of every row to a Parquet file, and return how good the predictions are.

    With a ``calibration`` of every class probabilities are written, too; those of a row sum to 1. ``watch`` is shown
    the rows.
    """
    columns = [pa.field(f"score_{name}", pa.float64()) for name in model.classes]
    likely = [pa.field(f"probability_{name}", pa.float64()) for name in model.classes if calibration is not None]
    schema = pa.schema([*columns, pa.field("label", pa.string()), pa.field("truth", pa.string()), *likely])
    names, said, true, rows = texts(model.classes), list[np.ndarray](), list[np.ndarray](), 0
    with replacing(out) as stream, pq.ParquetWriter(stream, schema) as writer:
        for scores, codes in _groups(predict_classes(engine, model, data, listen, watch), len(model.classes)):
            known, found = codes != UNKNOWN, said_codes(scores)
            label, truth = names.take(numbers(found)), names.take(numbers(np.maximum(codes, 0), known))
            cells = [*map(numbers, scores.T), label, truth]
            if calibration is not None:
                cells += map(numbers, class_probabilities(calibration, scores).T)
            writer.write_table(pa.table(cells, schema=schema), codes.size)
            said.append(found[known])
            true.append(codes[known])
            rows += codes.size
            done = data.read if isinstance(data, RowsToScore) else data.bytes * rows // data.n_rows
            listen(Progress("predict", rows, done, data.bytes))
    all_true = np.concatenate(true)
    scored = label_scores(np.concatenate(said), all_true, len(model.classes)) if all_true.size else {}
    return JudgedClasses(rows, all_true.size, scored)


def _groups(parts: Iterator[PredictedClasses], classes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield scores and codes of as many rows at a time as a row group has, of the last ones in the end."""
    size = max(1, CELLS // classes)
    waiting, rows = list[tuple[np.ndarray, np.ndarray]](), 0
    for part in parts:
        waiting.append((part.scores, part.codes))
        rows += part.codes.size
        if rows >= size:
            scores, codes = (np.concatenate([each[k] for each in waiting]) for k in (0, 1))
            whole = rows - rows % size
            for first in range(0, whole, size):
                yield scores[first : first + size], codes[first : first + size]
            waiting, rows = [(scores[whole:], codes[whole:])], rows - whole
    if rows:
        yield np.concatenate([each[0] for each in waiting]), np.concatenate([each[1] for each in waiting])
