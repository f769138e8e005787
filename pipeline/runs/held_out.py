"""What run.json keeps of the scores of its chosen model on rows it was not trained on: for reports, without the rows.

``c`` is that of the model, ``of`` says which rows: ``holdout``, ``validation``, or ``folds``, each row scored by the
model of the fold that left it out. Of two classes it is a histogram (``maths.histogram``), of several the confusion:

    {"c": 0.1, "of": "folds", "edges": [-0.4, 0.0, 1.1], "negative": [30, 9, 2, 0], "positive": [1, 4, 20, 11]}
    {"c": 0.1, "of": "holdout", "confusion": [[30, 2, 0], [1, 22, 3], [0, 0, 9]]}
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.maths.histogram import ScoreHistogram, confusion, score_histogram

HOLDOUT, VALIDATION, OF_FOLDS = ROWS = "holdout", "validation", "folds"
BINNED = ("edges", "negative", "positive")
MOST_EDGES = 1000
MOST_CLASSES = 200  # whose confusion is kept: 40,000 numbers


@dataclass(frozen=True)
class HeldOut:
    """The scores of the chosen model of two classes."""

    c: float
    of: str
    edges: tuple[float, ...]
    negative: tuple[int, ...]
    positive: tuple[int, ...]

    @property
    def histogram(self) -> ScoreHistogram:
        """The same as arrays."""
        return ScoreHistogram(np.array(self.edges, float), np.array(self.negative), np.array(self.positive))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"c": self.c, "of": self.of} | {name: list(getattr(self, name)) for name in BINNED}

    @classmethod
    def from_json(cls, item: Any) -> HeldOut:
        """Read what ``to_json`` wrote; raise ValueError for anything else."""
        c, of = _model(item, set(BINNED))
        edges = item["edges"]
        if not isinstance(edges, list) or not 1 <= len(edges) <= MOST_EDGES or not all(map(_is_number, edges)):
            raise ValueError(f"edges are a list of 1 to {MOST_EDGES} numbers")
        if any(b <= a for a, b in pairwise(edges)) or 0.0 not in edges:
            raise ValueError("edges ascend, and 0 is one of them")
        return cls(c, of, tuple(edges), *(_counts(item[side], len(edges) + 1) for side in BINNED[1:]))


@dataclass(frozen=True)
class ClassesHeldOut:
    """What the chosen models of several classes called rows: a row a true class, a column what was said."""

    c: float
    of: str
    confusion: tuple[tuple[int, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"c": self.c, "of": self.of, "confusion": [list(row) for row in self.confusion]}

    @classmethod
    def from_json(cls, item: Any, classes: int) -> ClassesHeldOut:
        """Read what ``to_json`` wrote; raise ValueError for anything else."""
        c, of = _model(item, {"confusion"})
        rows = item["confusion"]
        if not isinstance(rows, list) or len(rows) != classes:
            raise ValueError(f"a confusion has {classes} rows")
        return cls(c, of, tuple(_counts(row, classes) for row in rows))


def held_out_of(c: float, of: str, scores: np.ndarray, labels: np.ndarray) -> dict[str, Any] | None:
    """Return what run.json says of the scores of two classes; None if there is nothing to say."""
    found = score_histogram(scores, labels)
    if found is None:
        return None
    return {"c": c, "of": of} | {name: getattr(found, name).tolist() for name in BINNED}


def confusion_of(
    c: float, of: str, columns: Iterable[np.ndarray], codes: np.ndarray, classes: int
) -> dict[str, Any] | None:
    """Return what run.json says of the scores of several classes; None if there are no rows, or too many classes."""
    if classes > MOST_CLASSES or not codes.size:
        return None
    return {"c": c, "of": of, "confusion": confusion(columns, codes, classes).tolist()}


def _model(item: Any, more: set[str]) -> tuple[float, str]:
    if not isinstance(item, dict) or set(item) != {"c", "of", *more}:
        raise ValueError(f"scores of rows held out are an object with the keys c, of, {', '.join(sorted(more))}")
    if not _is_number(item["c"]) or item["c"] <= 0 or item["of"] not in ROWS:
        raise ValueError("the c or the of of rows held out is none")
    return item["c"], item["of"]


def _counts(item: Any, length: int) -> tuple[int, ...]:
    """Read counts of rows."""
    whole = isinstance(item, list) and len(item) == length
    if not whole or not all(isinstance(x, int) and not isinstance(x, bool) and 0 <= x < 2**53 for x in item):
        raise ValueError(f"counts of rows are {length} whole numbers")
    return tuple(item)


def _is_number(x: Any) -> bool:
    try:
        return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)
    except OverflowError:
        return False
