"""Probabilities from the scores of a model: Platt's sigmoid or isotonic regression, fitted on rows it did not see.

As JSON (run.json, ``calibration``), ``c`` being that of the model whose scores were fitted, or null:

    {"kind": "sigmoid", "c": 0.1, "slope": 1.7, "intercept": -0.2}
    {"kind": "isotonic", "c": 0.1, "scores": [-1.5, 0.3], "probabilities": [0.02, 0.9]}

Whatever it is, a probability lies in [0, 1] and does not fall where the score rises. Of K classes each has its own, and
a row's K probabilities are divided by their sum; where all are 0 each is 1/K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import DataError, SpecError, shown
from pipeline.maths.isotonic import MOST_POINTS, Steps, fit_steps
from pipeline.maths.sigmoid import Sigmoid, fit_sigmoid

KINDS = ("sigmoid", "isotonic")
_KEYS = {"sigmoid": ("slope", "intercept"), "isotonic": ("scores", "probabilities")}


@dataclass(frozen=True)
class Calibration:
    """What makes probabilities of scores; ``c`` is that of the model whose scores it was fitted on."""

    kind: str
    parameters: Sigmoid | Steps
    c: float | None = None

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of the positive class for each score."""
        return self.parameters.probabilities(np.asarray(scores, np.float64))

    def at(self, c: float) -> Calibration:
        """Return it as that of a model."""
        return replace(self, c=c)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        of = self.parameters
        if isinstance(of, Sigmoid):
            return {"kind": self.kind, "c": self.c, "slope": of.slope, "intercept": of.intercept}
        points = {"scores": of.at.tolist(), "probabilities": of.probability.tolist()}
        return {"kind": self.kind, "c": self.c, **points}

    @classmethod
    def from_json(cls, item: Any) -> Calibration:
        """Read what ``to_json`` wrote; raise ValueError for anything else."""
        if not isinstance(item, dict) or item.get("kind") not in KINDS:
            raise ValueError(f"a calibration is an object of kind {' or '.join(KINDS)}, not {shown(item)}")
        kind, c = item["kind"], item.get("c")
        if set(item) != {"kind", "c", *_KEYS[kind]}:
            raise ValueError(f"a calibration of kind {kind} has the keys kind, c, {', '.join(_KEYS[kind])}")
        if c is not None and not (is_number(c) and c > 0):
            raise ValueError(f"the C of a calibration cannot be {shown(c)}")
        first, second = (item[key] for key in _KEYS[kind])
        if kind == "isotonic":
            return cls(kind, _steps(first, second), c)
        if not (is_number(first) and is_number(second) and first >= 0):
            raise ValueError(f"a sigmoid's slope and intercept cannot be {shown(first)} and {shown(second)}")
        return cls(kind, Sigmoid(float(first), float(second)), c)


def fit_calibration(
    scores: np.ndarray, labels: np.ndarray, kind: str = "sigmoid", c: float | None = None
) -> Calibration:
    """Fit probabilities to scores of rows that the model (or each fold's) was not trained on; labels are -1 and +1."""
    if kind not in KINDS:
        raise SpecError(f"unknown calibration {shown(kind)}; there are {', '.join(KINDS)}")
    if not np.isfinite(scores).all():
        raise DataError("scores beyond float64's range cannot be calibrated; scale the features, and train again")
    positive = labels > 0
    if kind == "isotonic":
        return Calibration(kind, fit_steps(scores, positive), c)
    return Calibration(kind, fit_sigmoid(scores[positive], scores[~positive]), c)


def fit_calibrations(
    scores: np.ndarray, labels: np.ndarray, kind: str, c: float | None
) -> Calibration | tuple[Calibration, ...]:
    """Fit probabilities of two classes, or of each of several: scores are a column each then, labels codes."""
    if scores.ndim == 1:
        return fit_calibration(scores, labels, kind, c)
    columns = enumerate(scores.T)
    return tuple(fit_calibration(column, np.where(labels == k, 1, -1), kind, c) for k, column in columns)


def class_probabilities(calibrations: Sequence[Calibration], scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of K classes, rows that sum to 1, for a block of rows with K scores each."""
    found = np.stack([each.probabilities(scores[:, k]) for k, each in enumerate(calibrations)], axis=1)
    total = found.sum(axis=1, keepdims=True)
    return np.divide(found, total, out=np.full(found.shape, 1 / len(calibrations)), where=total > 0)


def _steps(scores: Any, probabilities: Any) -> Steps:
    for what, numbers in (("scores", scores), ("probabilities", probabilities)):
        if not isinstance(numbers, list) or not 1 <= len(numbers) <= MOST_POINTS or not all(map(is_number, numbers)):
            raise ValueError(f"the {what} of a calibration are a list of 1 to {MOST_POINTS} numbers")
    at, p = np.array(scores, np.float64), np.array(probabilities, np.float64)
    rising = at.size == p.size and (at[1:] > at[:-1]).all() and (p[1:] >= p[:-1]).all()
    if not (rising and p[0] >= 0 and p[-1] <= 1):
        raise ValueError("scores and probabilities of a calibration are as many, ascend, and the latter from 0 to 1")
    return Steps(at, p)


def is_number(x: Any) -> bool:
    """Tell a finite number among what JSON may have."""
    try:
        return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)
    except OverflowError:
        return False
