"""What run.json keeps of the scores of its chosen model on rows it was not trained on: for reports, without the rows.

``c`` is that of the model, ``of`` says which rows: ``holdout``, ``validation``, or ``folds``, each row scored by the
model of the fold that left it out. Of two classes it is a histogram (``maths.histogram``), of several the confusion,
and unless they are many the histogram of each against the rest:

    {"c": 0.1, "of": "folds", "edges": [-0.4, 0.0, 1.1], "negative": [30, 9, 2, 0], "positive": [1, 4, 20, 11]}
    {"c": 0.1, "of": "holdout", "confusion": [[30, 2, 0], [1, 22, 3], [0, 0, 9]], "classes": [{"edges": ...}, ...]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.maths.calibration import is_number
from pipeline.maths.histogram import ScoreHistogram, confusion, score_histogram

HOLDOUT, VALIDATION, OF_FOLDS = ROWS = "holdout", "validation", "folds"
BINNED = ("edges", "negative", "positive")
MOST_EDGES = 1000  # that a file may have; ``score_histogram`` makes 200
MOST_CONFUSED = 200  # whose confusion is kept: 40,000 numbers
MOST_BINNED = 12  # classes whose histograms are kept: 600 numbers each


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
        if not isinstance(edges, list) or not 1 <= len(edges) <= MOST_EDGES or not all(map(is_number, edges)):
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
    classes: tuple[HeldOut, ...] | None
    """The scores of each class's model, positive rows being those of the class; None if they are not kept."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        found = {"c": self.c, "of": self.of, "confusion": [list(row) for row in self.confusion]}
        binned = [{name: list(getattr(each, name)) for name in BINNED} for each in self.classes or ()]
        return found | {"classes": binned or None}

    @classmethod
    def from_json(cls, item: Any, classes: int) -> ClassesHeldOut:
        """Read what ``to_json`` wrote; raise ValueError for anything else."""
        c, of = _model(item, {"confusion", "classes"} if "classes" in item else {"confusion"})
        rows, binned = item["confusion"], item.get("classes")
        if not isinstance(rows, list) or len(rows) != classes:
            raise ValueError(f"a confusion has {classes} rows")
        if binned is not None and (not isinstance(binned, list) or len(binned) != classes):
            raise ValueError(f"scores by class are null, or a list of {classes}")
        if not all(isinstance(each, dict) and set(each) == set(BINNED) for each in binned or ()):
            raise ValueError(f"scores of a class are an object with the keys {', '.join(BINNED)}")
        each_class = [HeldOut.from_json({"c": c, "of": of} | each) for each in binned or ()]
        return cls(c, of, tuple(_counts(row, classes) for row in rows), tuple(each_class) or None)


def held_out_of(c: float, of: str, scores: np.ndarray, labels: np.ndarray) -> dict[str, Any] | None:
    """Return what run.json says of the scores of two classes; None if there is nothing to say."""
    found = _binned(scores, labels)
    return None if found is None else {"c": c, "of": of} | found


def classes_held_out_of(
    c: float, of: str, columns: Iterable[np.ndarray], codes: np.ndarray, classes: int
) -> dict[str, Any] | None:
    """Return what run.json says of the scores of several classes; None if there are no rows, or too many classes."""
    if classes > MOST_CONFUSED or not codes.size:
        return None
    binned: list[dict[str, Any] | None] = []

    def each_binned() -> Iterator[np.ndarray]:
        for k, column in enumerate(columns):
            if classes <= MOST_BINNED:
                binned.append(_binned(column, np.where(codes == k, 1, -1)))
            yield column

    matrix = confusion(each_binned(), codes, classes).tolist()
    return {"c": c, "of": of, "confusion": matrix, "classes": binned if binned and None not in binned else None}


def _binned(scores: np.ndarray, labels: np.ndarray) -> dict[str, Any] | None:
    found = score_histogram(scores, labels)
    return None if found is None else {name: getattr(found, name).tolist() for name in BINNED}


def _model(item: Any, more: set[str]) -> tuple[float, str]:
    if not isinstance(item, dict) or set(item) != {"c", "of", *more}:
        raise ValueError(f"scores of rows held out are an object with the keys c, of, {', '.join(sorted(more))}")
    if not is_number(item["c"]) or item["c"] <= 0 or item["of"] not in ROWS:
        raise ValueError("the c or the of of rows held out is none")
    return item["c"], item["of"]


def _counts(item: Any, length: int) -> tuple[int, ...]:
    """Read counts of rows."""
    whole = isinstance(item, list) and len(item) == length
    if not whole or not all(isinstance(x, int) and not isinstance(x, bool) and 0 <= x < 2**53 for x in item):
        raise ValueError(f"counts of rows are {length} whole numbers")
    return tuple(item)
