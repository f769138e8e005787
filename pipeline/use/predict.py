"""Scores and labels of all rows, in row order, in one pass: of a data set, or of files as they are.

    run -> model on these data -> [scores, part after part] -> Parquet, and how good the predictions are

Rows need no label: how good the predictions are is said of those whose label the model knows. The file's row groups
have ``GROUP`` rows whatever the parts are, so its bytes depend on the rows and the model alone. In memory are the
results of a few parts and 9 bytes a row, because an AUC needs every row; sorting them in the end takes about 50 bytes a
row for a moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.data.dataset import Dataset
from pipeline.data.ingest.ingest import IngestSpec
from pipeline.data.inputs import is_shards, open_dataset
from pipeline.engine.engine import Engine
from pipeline.errors import DataError
from pipeline.events import Listener, Progress, silent
from pipeline.files import replacing
from pipeline.maths.calibration import Calibration
from pipeline.maths.score import scores
from pipeline.runs.classes import ClassesStep
from pipeline.runs.directory import RunOf, StepView
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.models import AnyModel, Model, any_model_of
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.scoring.watch import Watch
from pipeline.use.predict_classes import PredictedClasses, predict_classes
from pipeline.use.tables import numbers, texts

GROUP = 1 << 20  # rows: Parquet's row groups
SCHEMA = pa.schema([("score", pa.float64()), ("label", pa.string()), ("truth", pa.string())])
PROBABILITY = pa.field("probability", pa.float64())  # of the positive class


@dataclass(frozen=True)
class Predicted:
    """Consecutive rows: ``score`` is x_i . w, or what a kernel's model makes of x_i.

    ``sign`` is the data's own class (-1 or +1, 0 where they do not say), ``names`` what to call the two classes.
    """

    first_row: int
    score: np.ndarray
    sign: np.ndarray
    names: tuple[str, str]

    @property
    def label(self) -> np.ndarray:
        """The predicted class; a score of exactly 0 is negative, as LIBLINEAR has it."""
        return np.array(self.names)[(self.score > 0).astype(np.int8)]

    @property
    def truth(self) -> np.ndarray:
        """The class the data have, by the same names; None where they do not say."""
        return np.array([self.names[0], None, self.names[1]], dtype=object)[self.sign + 1]


def predict(
    engine: Engine,
    source: RunOf[Any] | StepView | ClassesStep | AnyModel,
    data: Dataset | RowsToScore | str | Path,
    listen: Listener = silent,
    training: Dataset | str | Path | None = None,
) -> Iterator[Predicted] | Iterator[PredictedClasses]:
    """Predict every row of ``data``, a part at a time in row order; of a run its best step counts.

    ``data`` that are a path are files, read for the model: they need no labels. Data that do not fit the model (another
    bias, a missing column, labels of the opposite meaning) are an error at once; see ``scoring.model``. ``training``
    names the training data of a kernel's model if they are no longer where run.json says.
    """
    if isinstance(source, RunOf | StepView | ClassesStep):
        model = any_model_of(source, None, listen, training)
    else:
        model = source
    if isinstance(data, str | Path):
        data = rows_for(model, str(data), IngestSpec(bias=model.bias), listen)
    if isinstance(model, ClassesModel):
        return predict_classes(engine, model, data, listen)
    return predicted(engine, model, data, listen)


def predicted(
    engine: Engine, model: Model, data: Dataset | RowsToScore, listen: Listener = silent, watch: Watch | None = None
) -> Iterator[Predicted]:
    """Predict every row by a model of two classes; ``watch`` is shown the rows."""
    if isinstance(data, RowsToScore):
        return _numbered(data.parts(watch), model, data.path)
    data.expect_two_classes("a model of two")
    return _numbered(model.shard_scores(engine, data, listen, watch), model, data.path)


def rows_for(
    model: AnyModel,
    path: str,
    spec: IngestSpec,
    listen: Listener = silent,
    given: Collection[str] | None = None,
) -> Dataset | RowsToScore:
    """Open DATA to be scored: a shard directory as the data set it is, files as the model needs them."""
    return open_dataset(path, spec, listen, given) if is_shards(path) else RowsToScore(model, path, spec, listen)


def write_predictions(
    engine: Engine,
    model: Model,
    data: Dataset | RowsToScore,
    out: Path,
    listen: Listener = silent,
    calibration: Calibration | None = None,
    watch: Watch | None = None,
) -> Judged:
    """Write score, label and truth of every row to a Parquet file, and return how good the predictions are.

    With a ``calibration`` of the model the probability of the positive class is written, too. ``watch`` is shown the
    rows.
    """
    schema = SCHEMA if calibration is None else SCHEMA.append(PROBABILITY)
    parts = predicted(engine, model, data, listen, watch)
    score, sign, rows = list[np.ndarray](), list[np.ndarray](), 0
    with replacing(out) as stream, pq.ParquetWriter(stream, schema) as writer:
        for scored, known in _groups(parts):
            table = _table(scored, known, model.names)
            if calibration is not None:
                table = table.append_column(PROBABILITY, numbers(calibration.probabilities(scored)))
            writer.write_table(table, GROUP)
            score.append(scored)
            sign.append(known)
            rows += scored.size
            done = data.read if isinstance(data, RowsToScore) else data.bytes * rows // data.n_rows
            listen(Progress("predict", rows, done, data.bytes))
    return _judged(np.concatenate(score), np.concatenate(sign))


@dataclass(frozen=True)
class Judged:
    """How many rows were predicted, how many of them have a label the model knows, and the scores on these."""

    rows: int
    labelled: int
    scores: dict[str, float | None]


def _judged(score: np.ndarray, sign: np.ndarray) -> Judged:
    known = sign != 0
    labelled = int(np.count_nonzero(known))
    if labelled < sign.size:
        score, sign = score[known], sign[known]
    return Judged(known.size, labelled, scores(score * sign, sign) if labelled else {})


def _groups(parts: Iterator[Predicted]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield scores and signs of ``GROUP`` rows at a time, of the last ones in the end."""
    waiting, rows = list[Predicted](), 0
    for part in parts:
        waiting.append(part)
        rows += part.score.size
        if rows >= GROUP:
            score, sign = (np.concatenate([getattr(p, name) for p in waiting]) for name in ("score", "sign"))
            whole = rows - rows % GROUP
            for first in range(0, whole, GROUP):
                yield score[first : first + GROUP], sign[first : first + GROUP]
            waiting, rows = [Predicted(0, score[whole:], sign[whole:], part.names)], rows - whole
    if rows:
        yield np.concatenate([p.score for p in waiting]), np.concatenate([p.sign for p in waiting])


def _numbered(parts: Iterator[tuple[np.ndarray, np.ndarray]], model: Model, path: str) -> Iterator[Predicted]:
    row = 0
    for score, sign in parts:
        finite = np.isfinite(score)
        if not finite.all():
            problem = f"its score by {model.run} is beyond float64's range; scale the features, and train again"
            raise DataError(problem, path=path, row=row + int(np.argmin(finite)) + 1)
        yield Predicted(row, score, sign, model.names)
        row += score.size


def _table(score: np.ndarray, sign: np.ndarray, names: tuple[str, str]) -> pa.Table:
    known = texts(names)
    label = known.take(numbers((score > 0).view(np.int8)))
    truth = known.take(numbers((sign > 0).view(np.int8), sign != 0))
    return pa.table([numbers(score), label, truth], schema=SCHEMA)
