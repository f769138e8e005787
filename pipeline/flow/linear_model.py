"""A model of a run as the world outside needs it: weights, bias and the user's own names for the two classes.

The score of a row is x_i . w, with a bias column as the last feature where the run had one; above 0 it is the positive
class. Other data number the same features the same way, but may have fewer or more of them:

- fewer: the missing features are 0 in every row;
- more: no training row had the others, and w* is a sum of training rows, so that their weight is 0;
- the bias column stands after the last feature, wherever that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.errors import SpecError
from pipeline.events import Listener, Note, silent
from pipeline.flow.run_directory import Run, StepView, open_run

SIGNS = ("-1", "+1")


@dataclass(frozen=True)
class LinearModel:
    """The step ``step`` of a run, trained at ``c``. ``w`` counts the bias column; ``bias`` 0 means there is none."""

    run: Path
    step: int
    c: float
    w: np.ndarray
    bias: float
    negative: tuple[str, ...]
    positive: tuple[str, ...]

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
        self._check_bias(data)
        self._check_labels(data, listen)
        w, extra = np.zeros(data.n_features), 1 if self.bias else 0
        own, known = data.n_features - extra, self.weights.size
        if own > known:
            listen(Note(f"{data.path}: has {own:,} features, the model {known:,}; those beyond have weight 0"))
        shared = min(own, known)
        w[:shared] = self.weights[:shared]
        if self.bias:
            w[-1] = self.w[-1]
        return w

    def _check_bias(self, data: Dataset) -> None:
        if data.bias != self.bias:
            numbers = f"the data have bias {data.bias!r}, the run {self.run} was trained with {self.bias!r}"
            remedy = f"pass --bias {self.bias!r}, and ingest a shard directory again with it"
            raise SpecError(f"{data.path}: {numbers}; {remedy}")

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
    about = run.header["data"]
    labels = (tuple(about["labels"][side]) for side in ("negative", "positive"))
    return LinearModel(run.path, step.step, step.c, step.w, about["bias"], *labels)


def trained_on(data: Dataset, run: Path, c: float, w: np.ndarray) -> LinearModel:
    """Return the model that a run on these data is about to write."""
    return LinearModel(run, 0, c, w, data.bias, data.labels.negative, data.labels.positive)
