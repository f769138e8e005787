"""Scores and labels of all rows, in row order, in one pass: of a data set, or of files as they are.

    run -> model on these data -> [scores, part after part] -> Parquet or CSV, and how good the predictions are

Rows need no label: how good the predictions are is said of those whose label the model knows. The file's row groups
have ``GROUP`` rows whatever the parts are, so its bytes depend on the rows and the model alone. In memory are the
results of a few parts, and 8 bytes for each of the first 16.8 million labelled rows (``maths.area``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.data.dataset import Dataset
from pipeline.data.ids import with_ids_of
from pipeline.data.ingest.ingest import IngestSpec
from pipeline.data.inputs import is_shards, open_dataset
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import DataError
from pipeline.events import Listener, silent
from pipeline.maths.calibration import Calibration
from pipeline.maths.running_scores import RunningScores
from pipeline.runs.classes import AnyStep
from pipeline.runs.run import RunOf
from pipeline.scoring.classes_model import ClassesModel
from pipeline.scoring.models import AnyModel, Model, any_model_of
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.scoring.watch import Watch
from pipeline.use.label_values import label_values
from pipeline.use.output import GROUP, table_to
from pipeline.use.predict_classes import PredictedClasses, predict_classes
from pipeline.use.predictions import Judged, Parts, has_ids, progress_of, schema_of_predictions
from pipeline.use.tables import numbers


@dataclass(frozen=True)
class Predicted:
    """Consecutive rows: ``score`` is x_i . w, or what a kernel's model makes of x_i.

    ``sign`` is the data's own class (-1 or +1, 0 where they do not say), ``names`` what to call the two classes.
    ``ids`` are the columns of the data that go with them, if any were asked for.
    """

    first_row: int
    score: np.ndarray
    sign: np.ndarray
    names: tuple[str, ...]
    ids: pa.Table | None = None

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
    source: RunOf[Any] | AnyStep | AnyModel,
    data: Dataset | RowsToScore | str | Path,
    listen: Listener = silent,
    training: Dataset | str | Path | None = None,
    ids: Sequence[str] | None = None,
) -> Iterator[Predicted] | Iterator[PredictedClasses]:
    """Predict every row of ``data``, a part at a time in row order; of a run its best step counts.

    ``data`` that are a path are files, read for the model: they need no labels, and their columns ``ids`` go with the
    predictions (by default those that were ids in training, or that shards have kept). Data that do not fit the model
    (another bias, a missing column, labels of the opposite meaning) are an error at once; see ``scoring.model``.
    ``training`` names the training data of a kernel's model if they are no longer where run.json says.
    """
    model = any_model_of(source, None, listen, training) if isinstance(source, RunOf | AnyStep) else source
    if isinstance(data, str | Path):
        data = rows_for(model, str(data), IngestSpec(bias=model.bias), listen, ids=ids)
    elif ids and isinstance(data, Dataset):
        data = with_ids_of(data, ids)
    if isinstance(model, ClassesModel):
        return predict_classes(engine, model, data, listen)
    return predicted(engine, model, data, listen)


def predicted(
    engine: Engine, model: Model, data: Dataset | RowsToScore, listen: Listener = silent, watch: Watch | None = None
) -> Iterator[Predicted]:
    """Predict every row by a model of two classes; ``watch`` is shown the rows."""
    if not isinstance(data, RowsToScore):
        data.expect_two_classes("a model of two")
    return _checked(Parts.of(engine, model, data, listen, watch), model)


def all_scores(engine: Engine, model: AnyModel, data: Dataset | str | Path, listen: Listener = silent) -> np.ndarray:
    """Return the scores of the rows of a data set, or of files, at once: of several classes a column each."""
    parts = predict(engine, model, data, listen)
    return np.concatenate([part.scores if isinstance(part, PredictedClasses) else part.score for part in parts])


def rows_for(
    model: AnyModel,
    path: str,
    spec: IngestSpec,
    listen: Listener = silent,
    given: Collection[str] | None = None,
    ids: Sequence[str] | None = None,
) -> Dataset | RowsToScore:
    """Open DATA to be scored: a shard directory as the data set it is, files as the model needs them.

    Columns ``ids`` are kept beside the scores; by default those that were ids in training, or that shards have kept.
    """
    if is_shards(path):
        return with_ids_of(open_dataset(path, spec, listen, given), ids or ())
    return RowsToScore(model, path, spec, listen, ids)


def write_predictions(
    engine: Engine,
    model: Model,
    data: Dataset | RowsToScore,
    out: Path,
    listen: Listener = silent,
    calibration: Calibration | None = None,
    watch: Watch | None = None,
) -> Judged:
    """Write score, label and truth of every row to a file, its ids first, and return how good the predictions are.

    With a ``calibration`` of the model the probability of the positive class is written, too. ``watch`` is shown the
    rows.
    """
    names, judged = label_values(model.names), RunningScores()
    likely = ["probability"] if calibration is not None else []
    schema = schema_of_predictions(data, ["score"], names.type, likely)
    rows = 0
    with table_to(out, schema, GROUP, has_ids(data)) as write:
        for part in predicted(engine, model, data, listen, watch):
            label = names.take(numbers((part.score > 0).view(np.int8)))
            truth = names.take(numbers((part.sign > 0).view(np.int8), part.sign != 0))
            columns = [*([] if part.ids is None else part.ids.columns), numbers(part.score), label, truth]
            if calibration is not None:
                columns.append(numbers(calibration.probabilities(part.score)))
            write(pa.table(columns, schema=schema))
            judged.add(part.score, part.sign)
            rows += part.score.size
            listen(progress_of(data, rows))
    return Judged(rows, judged.labelled, *judged.found())


def _checked(parts: Parts, model: Model) -> Iterator[Predicted]:
    for row, score, sign, ids in parts:
        finite = np.isfinite(score)
        if not finite.all():
            problem = f"its score by {model.run} is beyond float64's range; scale the features, and train again"
            raise DataError(problem, path=parts.path, row=row + int(np.argmin(finite)) + 1)
        yield Predicted(row, score, sign, model.names, ids)
