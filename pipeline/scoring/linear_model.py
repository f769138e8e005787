"""A model of a run as the world outside needs it: weights, bias and the user's own names for the two classes.

The score of a row is x_i . w, with a bias column as the last feature where the run had one; above 0 it is the positive
class. Features with names (``columns``) are matched by name: one that the data do not have is an error, what the model
does not know is ignored. Data without names number the same features the same way, but may have fewer or more of them:

- fewer: the missing features are 0 in every row;
- more: no training row had the others, and w* is a sum of training rows, so that their weight is 0;
- the bias column stands after the last feature, wherever that is.

A model whose features have no names says nothing of data that have: these are refused, for positions would be a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.data.dataset import Dataset, names_of
from pipeline.data.reading.labels import LabelMap
from pipeline.data.reading.layout import listed
from pipeline.data.shards.manifest import MANIFEST, read_manifest
from pipeline.data.stores.located import is_url
from pipeline.errors import DatasetError, RunError, SpecError
from pipeline.events import Listener, Note, silent
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import Run, StepView, open_run

SIGNS = ("-1", "+1")


@dataclass(frozen=True)
class LinearModel:
    """The step ``step`` of a run, trained at ``c``. ``w`` counts the bias column; ``bias`` 0 means there is none.

    ``columns`` are the names of the features, if the training data had names; ``index_base`` is what their svmlight
    indices counted from, if they came from such text.
    """

    run: Path
    step: int
    c: float
    w: np.ndarray
    bias: float
    negative: tuple[str, ...]
    positive: tuple[str, ...]
    one_against_rest: bool = False
    columns: tuple[str, ...] | None = None
    index_base: int | None = None

    @property
    def labels(self) -> LabelMap:
        """What the labels of the training data meant."""
        return LabelMap(self.negative, self.positive, self.one_against_rest)

    @property
    def weights(self) -> np.ndarray:
        """The weights of the features, the bias column left out."""
        return self.w[:-1] if self.bias else self.w

    @property
    def intercept(self) -> float:
        """What the bias column adds to every score."""
        return self.bias * float(self.w[-1]) if self.bias else 0.0

    @property
    def names(self) -> tuple[str, str]:
        """The negative and the positive class: the label where a side has only one, else -1 or +1."""
        sides = zip((self.negative, self.positive), SIGNS, strict=True)
        negative, positive = (labels[0] if len(labels) == 1 else sign for labels, sign in sides)
        return (negative, positive) if negative != positive else SIGNS

    def weights_on(self, data: Dataset, listen: Listener = silent) -> np.ndarray:
        """Return the vector w with which x_i . w are the scores of these data, or say why there is none."""
        self.check_bias(data.path, data.bias)
        self._check_labels(data, listen)
        own = data.n_features - (1 if self.bias else 0)
        weights = self._by_name(data, listen) if data.columns else self._by_position(data, own, listen)
        return np.append(weights, self.w[-1]) if self.bias else weights

    def _by_name(self, data: Dataset, listen: Listener) -> np.ndarray:
        """Return the weights in the order of the data's columns."""
        assert data.columns is not None
        if self.columns is None:
            problem = f"has named columns, but the run {self.run} does not say which column was which feature"
            raise SpecError(
                f"{data.path}: {problem}; train again on a table, or write the data as those it was made of"
            )
        place = {name: k for k, name in enumerate(self.columns)}
        known = set(data.columns)
        missing = [name for name in self.columns if name not in known]
        if missing:
            what = "column" if len(missing) == 1 else "columns"
            raise SpecError(
                f"{data.path}: no {what} {listed(missing)}, which the run {self.run} needs; add what is missing"
            )
        extra = [name for name in data.columns if name not in place]
        if extra:
            listen(Note(f"{data.path}: columns the model does not know are ignored: {listed(extra)}"))
        return np.array([self.weights[place[name]] if name in place else 0.0 for name in data.columns])

    def _by_position(self, data: Dataset, own: int, listen: Listener) -> np.ndarray:
        known = self.weights.size
        if own > known and self.columns:
            problem = f"has {own:,} features without names, the run {self.run} {known:,}"
            raise SpecError(f"{data.path}: {problem}; write the same features in the same order, or a table with names")
        if own > known:
            listen(Note(f"{data.path}: has {own:,} features, the model {known:,}; those beyond have weight 0"))
        if self.columns:
            fewer = f", and the model's last {known - own:,} are 0" if own < known else ""
            listen(Note(f"{data.path}: has no column names; its features are taken by position{fewer}"))
        weights = np.zeros(own)
        shared = min(own, known)
        weights[:shared] = self.weights[:shared]
        return weights

    def check_bias(self, path: str, bias: float) -> None:
        """Refuse data with another bias than the run's."""
        if bias != self.bias:
            numbers = f"the data have bias {bias!r}, the run {self.run} was trained with {self.bias!r}"
            remedy = f"pass --bias {self.bias!r}, and ingest a shard directory again with it"
            raise SpecError(f"{path}: {numbers}; {remedy}")

    def _check_labels(self, data: Dataset, listen: Listener) -> None:
        """Refuse a label that means one class in the run and the other in the data; mention one that is new."""
        known = dict.fromkeys(self.negative, SIGNS[0]) | dict.fromkeys(self.positive, SIGNS[1])
        for labels, sign, name in zip((data.labels.negative, data.labels.positive), SIGNS, self.names, strict=True):
            for label in labels:
                if known.get(label, sign) != sign:
                    problem = f"label {label} is {sign} in the data and {known[label]} in the run {self.run}"
                    remedy = f"pass --positive {self.positive[0]}, and ingest a shard directory again with it"
                    raise SpecError(f"{data.path}: {problem}; {remedy}")
            new = [label for label in labels if label not in known]
            if new:
                more = f" and {len(new) - 1} more are" if len(new) > 1 else " is"
                listen(Note(f"{data.path}: label {new[0]}{more} new to the run, taken for {name}"))


def model_of(source: Run | StepView, c: float | None = None, listen: Listener = silent) -> LinearModel:
    """Return the model of a step, or of a run: its best step, or the step at ``c``."""
    if isinstance(source, StepView):
        step, run = source, open_run(source.model.path.parents[1])
    else:
        step, run = source.at(c, listen), source
    about, w = run.header.data, step.w
    columns, own = _columns(about), w.size - (1 if about.bias else 0)
    if columns is not None and len(set(columns)) != own:
        raise RunError(f"{run.path}: run.json does not name the model's {own:,} features; train again")
    labels = (about.negative, about.positive, about.one_against_rest)
    return LinearModel(run.path, step.step, step.c, w, about.bias, *labels, columns, about.index_base)


def _columns(about: DataRecord) -> tuple[str, ...] | None:
    """Return the names of the features; a run of before they were kept has those of its data, if these are there."""
    if about.says_columns:
        return about.columns
    folder = Path(about.path)
    if is_url(about.path) or not (folder / MANIFEST).is_file():
        return None
    try:
        found = read_manifest(folder)
    except DatasetError:
        return None  # the data are no longer what they were
    return names_of(found) if found.fingerprint == about.fingerprint else None


def trained_on(data: Dataset, run: Path, c: float, w: np.ndarray) -> LinearModel:
    """Return the model that a run on these data is about to write."""
    labels = data.labels
    names = (labels.negative, labels.positive, labels.one_against_rest, data.columns, data.index_base)
    return LinearModel(run, 0, c, w, data.bias, *names)
