"""Scores and labels of all rows of a data set, in row order, in one pass.

    run -> weights on these data -> [x_i . w, shard after shard] -> Parquet, and how good the predictions are

The file's row groups have ``GROUP`` rows whatever the shards are, so its bytes depend on the rows and the model alone.
In memory are the results of a few shards and 9 bytes a row, because an AUC needs every row; sorting them in the end
takes about 50 bytes a row for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.events import Listener, Progress, silent
from pipeline.files import replacing
from pipeline.flow.linear_model import LinearModel, model_of
from pipeline.flow.run_directory import Run, StepView
from pipeline.flow.score import scores
from pipeline.maths import csr

GROUP = 1 << 20
SCHEMA = pa.schema([("score", pa.float64()), ("label", pa.string()), ("truth", pa.string())])


@dataclass(frozen=True)
class Predicted:
    """Consecutive rows: ``score`` is x_i . w, ``sign`` the data's own class (-1 or +1), ``names`` what to call them."""

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
        """The class the data have, by the same names."""
        return np.array(self.names)[(self.sign > 0).astype(np.int8)]


def predict(
    engine: Engine, source: Run | StepView | LinearModel, data: Dataset, listen: Listener = silent
) -> Iterator[Predicted]:
    """Predict every row of ``data``, a shard at a time in row order; of a run its best step counts.

    Data that do not fit the model (another bias, labels of the opposite meaning) are an error at once; see
    ``linear_model`` for fewer and more features.
    """
    model = source if isinstance(source, LinearModel) else model_of(source, listen=listen)
    return _predicted(engine, data, model.weights_on(data, listen), model.names)


def write_predictions(
    engine: Engine, model: LinearModel, data: Dataset, out: Path, listen: Listener = silent
) -> dict[str, float | None]:
    """Write score, label and truth of every row to a Parquet file, and return how good the predictions are."""
    parts = predict(engine, model, data, listen)
    score, sign = np.empty(data.n_rows), np.empty(data.n_rows, np.int8)
    with replacing(out) as stream, pq.ParquetWriter(stream, SCHEMA) as writer:
        for group in _filled(parts, score, sign):
            writer.write_table(_table(score[group], sign[group], model.names), GROUP)
            listen(Progress("predict", group.stop, data.bytes * group.stop // data.n_rows, data.bytes))
    return scores(score * sign, sign)


def _filled(parts: Iterator[Predicted], score: np.ndarray, sign: np.ndarray) -> Iterator[slice]:
    """Put the parts into the arrays, and yield where ``GROUP`` rows are complete, the last ones in the end."""
    first = 0
    for part in parts:
        stop = part.first_row + part.score.size
        score[part.first_row : stop], sign[part.first_row : stop] = part.score, part.sign
        while stop - first >= GROUP:
            yield slice(first, first + GROUP)
            first += GROUP
    if first < score.size:
        yield slice(first, score.size)


def _predicted(engine: Engine, data: Dataset, w: np.ndarray, names: tuple[str, str]) -> Iterator[Predicted]:
    row = 0
    for score, sign in engine.stream(_shard_scores, data.shards, w):
        yield Predicted(row, score, sign, names)
        row += score.size
    assert row == data.n_rows


def _shard_scores(shard: Shard, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = shard.load()
    score = csr.margins(rows.indptr, rows.indices, rows.values, np.ones_like(rows.labels), w)
    return score, np.array(rows.labels)


def _table(score: np.ndarray, sign: np.ndarray, names: tuple[str, str]) -> pa.Table:
    texts = pa.array(names)
    label, truth = (texts.take(pa.array((x > 0).view(np.int8))) for x in (score, sign))
    return pa.table([pa.array(score), label, truth], schema=SCHEMA)
