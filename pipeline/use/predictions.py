"""What predictions of two classes and of several have in common: rows with their ids, columns, a judgement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.data.dataset import Dataset
from pipeline.data.ids import ShardIds
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import DataError
from pipeline.events import Listener, Progress, silent
from pipeline.scoring.model import Scored
from pipeline.scoring.models import AnyModel
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.scoring.watch import Watch

if TYPE_CHECKING:
    from pipeline.data.reading.ids import IdColumns


@dataclass(frozen=True)
class Judged:
    """How many rows were predicted, how many of them have a label the model knows, and the scores on these.

    The AUC is exact, or off by ``auc_error`` at most.
    """

    rows: int
    labelled: int
    scores: dict[str, float | None]
    auc_error: float = 0.0


@dataclass(frozen=True)
class Parts:
    """Scores and signs, or codes, of all rows of ``path``, part after part, with the ids that go with them."""

    path: str
    scored: Iterator[Scored]
    ids: IdColumns | ShardIds | None

    @classmethod
    def of(
        cls,
        engine: Engine,
        model: AnyModel,
        data: Dataset | RowsToScore,
        listen: Listener = silent,
        watch: Watch | None = None,
    ) -> Parts:
        """Score data; ``watch`` is shown the rows."""
        if isinstance(data, RowsToScore):
            return cls(data.path, data.parts(watch), _ids_of(data))
        return cls(data.path, model.shard_scores(engine, data, listen, watch), _ids_of(data))

    def __iter__(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, pa.Table | None]]:
        row = 0
        for score, sign in self.scored:
            yield row, score, sign, None if self.ids is None else self.ids.take(sign.size)
            row += sign.size
        if self.ids is not None:
            self.ids.finish()


def progress_of(data: Dataset | RowsToScore, rows: int) -> Progress:
    """Return how far so many rows of the data are."""
    done = data.read if isinstance(data, RowsToScore) else data.bytes * rows // data.n_rows
    return Progress("predict", rows, done, data.bytes)


def has_ids(data: Dataset | RowsToScore) -> bool:
    """Whether columns of the data go with the predictions."""
    return bool(data.ids)


def _ids_of(data: Dataset | RowsToScore) -> IdColumns | ShardIds | None:
    """Return the columns that go beside the scores, from the first row on; None if there are none."""
    if isinstance(data, RowsToScore):
        return data.id_columns()
    return ShardIds(data) if data.ids else None


def schema_of_predictions(
    data: Dataset | RowsToScore, scores: Sequence[str], label: pa.DataType, likely: Sequence[str]
) -> pa.Schema:
    """Return the columns of predictions: ids, scores, label and truth, probabilities."""
    own = [pa.field(name, pa.float64()) for name in scores]
    own += [pa.field(name, label) for name in ("label", "truth")]
    own += [pa.field(name, pa.float64()) for name in likely]
    return with_ids(pa.schema(own), _ids_of(data))


def with_ids(own: pa.Schema, ids: IdColumns | ShardIds | None) -> pa.Schema:
    """Return a schema with columns of ids in front; one that has the name of another column is an error."""
    if ids is None:
        return own
    for name in ids.names:
        if name in own.names:
            problem = f"the output has a column '{name}' of its own beside the id of that name"
            raise DataError(f"{problem}; rename yours, or name other columns with --id", path=ids.path)
    return pa.schema([*ids.schema, *own])
