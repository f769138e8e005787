"""What any model of a run knows of the data that it was trained on, and how it finds its features in other data.

Features with names (``columns``) are matched by name: one that the data do not have is an error, what the model does
not know is ignored. Data without names number the same features the same way, but may have fewer of them (the missing
ones are 0 in every row) or more (no training row had those). The bias column stands after the last feature, wherever
that is. A model whose features have no names says nothing of data that have: these are refused, for positions would be
a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.data.reading.labels import LabelMap
from pipeline.data.reading.layout import listed
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.events import Listener, Note, silent
from pipeline.runs.feature_names import FeatureNames
from pipeline.scoring.watch import Watch

if TYPE_CHECKING:
    from pipeline.data.tables.encoding import Encoding

SIGNS = ("-1", "+1")
IGNORED = -1
Scored = tuple[np.ndarray, np.ndarray]  # scores and labels


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """The step ``step`` of a run, trained at ``c``; ``bias`` 0 means that there is no bias column.

    ``labels`` is what those of the training data meant, ``feature_names`` what the features are called.
    """

    run: Path
    step: int = 0
    c: float = 0.0
    labels: LabelMap
    feature_names: FeatureNames
    bias: float
    beyond = ""  # what becomes of features that no training row had

    @property
    def known(self) -> int:
        """The number of features, the bias column left out."""
        return self.feature_names.own

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the features, if the training data had names."""
        return self.feature_names.columns

    @property
    def encoding(self) -> Encoding | None:
        """What made features of the columns of the table that the training data were, if they were one."""
        return self.feature_names.encoding

    @property
    def names(self) -> tuple[str, ...]:
        """The negative and the positive class: the label where a side has only one, else -1 or +1."""
        sides = zip((self.labels.negative, self.labels.positive), SIGNS, strict=True)
        negative, positive = (labels[0] if len(labels) == 1 else sign for labels, sign in sides)
        return (negative, positive) if negative != positive else SIGNS

    def scoring_on(self, data: Dataset, listen: Listener) -> tuple[Callable[..., Scored], tuple[Any, ...]]:
        """Return the task that scores a shard of these data, and what it needs beside the shard."""
        raise NotImplementedError

    def shard_scores(
        self, engine: Engine, data: Dataset, listen: Listener = silent, watch: Watch | None = None
    ) -> Iterator[Scored]:
        """Yield scores and labels of all rows, shard after shard; ``watch`` is shown the rows."""
        task, needed = self.scoring_on(data, listen)
        if watch is None:
            return engine.stream(task, data.shards, *needed)
        return watch.over(engine, data.shards, self.places_on(data, silent), task, needed)

    def places_on(self, data: Dataset, listen: Listener) -> np.ndarray:
        """Return which of the model's features each feature of the data is, the bias column left out, or say why not.

        ``IGNORED`` has a name that the model does not know; numbers from ``known`` on are what no training row had.
        """
        self.check_bias(data.path, data.bias)
        self._check_labels(data, listen)
        own = data.n_features - (1 if self.bias else 0)
        if self.encoding is not None or data.encoding is not None:
            self._check_encoding(data)
            return np.arange(own)
        return self._by_name(data, listen) if data.columns else self._by_position(data, own, listen)

    def _check_encoding(self, data: Dataset) -> None:
        """Refuse data whose columns were made features of in another way than the run's."""
        if self.encoding is None or data.encoding is None or self.encoding.digest != data.encoding.digest:
            problem = f"its features were made of its columns in another way than those of the run {self.run}"
            raise SpecError(f"{data.path}: {problem}; ingest its files again with --columns {self.run}")

    def _by_name(self, data: Dataset, listen: Listener) -> np.ndarray:
        assert data.columns is not None
        if self.columns is None:
            problem = f"has named columns, but the run {self.run} does not say which column was which feature"
            raise SpecError(
                f"{data.path}: {problem}; train again on a table, or write the data as those it was made of"
            )
        place = {name: k for k, name in enumerate(self.columns)}
        there = set(data.columns)
        missing = [name for name in self.columns if name not in there]
        if missing:
            what = "column" if len(missing) == 1 else "columns"
            raise SpecError(
                f"{data.path}: no {what} {listed(missing)}, which the run {self.run} needs; add what is missing"
            )
        extra = [name for name in data.columns if name not in place]
        if extra:
            listen(Note(f"{data.path}: columns the model does not know are ignored: {listed(extra)}"))
        return np.array([place.get(name, IGNORED) for name in data.columns], np.int64)

    def _by_position(self, data: Dataset, own: int, listen: Listener) -> np.ndarray:
        known = self.known
        if own > known and self.columns:
            problem = f"has {own:,} features without names, the run {self.run} {known:,}"
            raise SpecError(f"{data.path}: {problem}; write the same features in the same order, or a table with names")
        if own > known:
            listen(Note(f"{data.path}: has {own:,} features, the model {known:,}; {self.beyond}"))
        if self.columns:
            fewer = f", and the model's last {known - own:,} are 0" if own < known else ""
            listen(Note(f"{data.path}: has no column names; its features are taken by position{fewer}"))
        return np.arange(own)

    def check_bias(self, path: str, bias: float) -> None:
        """Refuse data with another bias than the run's."""
        if bias != self.bias:
            numbers = f"the data have bias {bias!r}, the run {self.run} was trained with {self.bias!r}"
            remedy = f"pass --bias {self.bias!r}, and ingest a shard directory again with it"
            raise SpecError(f"{path}: {numbers}; {remedy}")

    def _check_labels(self, data: Dataset, listen: Listener) -> None:
        """Refuse a label that means one class in the run and the other in the data; mention one that is new."""
        known = dict.fromkeys(self.labels.negative, SIGNS[0]) | dict.fromkeys(self.labels.positive, SIGNS[1])
        for labels, sign, name in zip((data.labels.negative, data.labels.positive), SIGNS, self.names, strict=True):
            for label in labels:
                if known.get(label, sign) != sign:
                    problem = f"label {label} is {sign} in the data and {known[label]} in the run {self.run}"
                    remedy = f"pass --positive {self.labels.positive[0]}, and ingest a shard directory again with it"
                    raise SpecError(f"{data.path}: {problem}; {remedy}")
            new = [label for label in labels if label not in known]
            if new:
                more = f" and {len(new) - 1} more are" if len(new) > 1 else " is"
                listen(Note(f"{data.path}: label {new[0]}{more} new to the run, taken for {name}"))
