"""Scores and classes of all rows, in row order, in one pass, by the models of several classes.

The file has the ids, then a score column a class, ``score_`` and its name, then label and truth, as the classes are
called, then if they are asked for a probability column a class. Its row groups have as many rows as ``CELLS`` scores
make, whatever the parts are, so its bytes depend on the rows and the model alone. In memory are the results of a few
parts, and what ``maths.running_scores`` keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.data.dataset import Dataset
from pipeline.data.reading.labels import UNKNOWN
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import DataError
from pipeline.events import Listener, silent
from pipeline.maths.calibration import Calibration, class_probabilities
from pipeline.maths.running_scores import RunningClassScores
from pipeline.scoring.classes_model import ClassesModel, said_codes
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.scoring.watch import Watch
from pipeline.use.label_values import label_values
from pipeline.use.output import table_to
from pipeline.use.predictions import Judged, Parts, has_ids, progress_of, schema_of_predictions
from pipeline.use.tables import numbers

CELLS = 1 << 22  # scores in a row group of Parquet: 32 MB


@dataclass(frozen=True)
class PredictedClasses:
    """Consecutive rows: ``scores`` has a column a class; ``codes`` are the data's own classes, or ``UNKNOWN``.

    ``ids`` are the columns of the data that go with them, if any were asked for.
    """

    first_row: int
    scores: np.ndarray
    codes: np.ndarray
    names: tuple[str, ...]
    ids: pa.Table | None = None

    @property
    def label(self) -> np.ndarray:
        """The predicted class: that of the largest score, of equal ones the first."""
        return np.array(self.names)[said_codes(self.scores)]

    @property
    def truth(self) -> np.ndarray:
        """The class the data have, by the same names; None where they do not say."""
        return np.array([*self.names, None], dtype=object)[self.codes]


def predict_classes(
    engine: Engine,
    model: ClassesModel,
    data: Dataset | RowsToScore,
    listen: Listener = silent,
    watch: Watch | None = None,
) -> Iterator[PredictedClasses]:
    """Predict every row of ``data``, a part at a time in row order; ``watch`` is shown the rows."""
    parts = Parts.of(engine, model, data, listen, watch)
    for row, scores, codes, ids in parts:
        finite = np.isfinite(scores).all(axis=1)
        if not finite.all():
            problem = f"a score of it by {model.run} is beyond float64's range; scale the features, and train again"
            raise DataError(problem, path=parts.path, row=row + int(np.argmin(finite)) + 1)
        yield PredictedClasses(row, scores, codes, model.names, ids)


def write_class_predictions(
    engine: Engine,
    model: ClassesModel,
    data: Dataset | RowsToScore,
    out: Path,
    listen: Listener = silent,
    calibration: Sequence[Calibration] | None = None,
    watch: Watch | None = None,
) -> Judged:
    """Write scores, label and truth of every row to a file, its ids first, and return how good the predictions are.

    With a ``calibration`` of every class probabilities are written, too; those of a row sum to 1. ``watch`` is shown
    the rows.
    """
    names, judged = label_values(model.names), RunningClassScores(len(model.names))
    likely = [f"probability_{name}" for name in model.names if calibration is not None]
    schema = schema_of_predictions(data, [f"score_{name}" for name in model.names], names.type, likely)
    rows = 0
    with table_to(out, schema, max(1, CELLS // len(model.names)), has_ids(data)) as write:
        for part in predict_classes(engine, model, data, listen, watch):
            said, known = said_codes(part.scores), part.codes != UNKNOWN
            label, truth = names.take(numbers(said)), names.take(numbers(np.maximum(part.codes, 0), known))
            columns = [*([] if part.ids is None else part.ids.columns), *map(numbers, part.scores.T), label, truth]
            if calibration is not None:
                columns += map(numbers, class_probabilities(calibration, part.scores).T)
            write(pa.table(columns, schema=schema))
            judged.add(part.scores, said, part.codes)
            rows += part.codes.size
            listen(progress_of(data, rows))
    return Judged(rows, judged.labelled, *judged.found())
