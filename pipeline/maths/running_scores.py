"""Scores of predictions that stream by, in memory that does not grow with the rows: counts, and an ``Area``.

They are those of ``maths.score`` for two classes and of ``maths.class_scores`` for several, by the same names; the AUC
is exact up to ``area.MOST_HELD`` scores, and beyond that within ``auc_error``. Of more than ``MOST_AREAS`` classes
there is none: each needs its own.
"""

from __future__ import annotations

import numpy as np

from pipeline.maths.area import MOST_HELD, Area
from pipeline.maths.class_scores import scores_of_counts
from pipeline.maths.score import two_class_scores

MOST_AREAS = 100  # classes: octaves alone are 4,096 edges each, 0.1 MB with their counts

Found = dict[str, float | None]


class RunningScores:
    """Of two classes: takes in scores and signs, -1 or +1."""

    def __init__(self) -> None:
        self.labelled = self.said = self.hits = self.passes = 0
        self.area = Area()

    def add(self, score: np.ndarray, sign: np.ndarray) -> None:
        """Take in some rows; a sign of 0 says no class, and its row does not count."""
        known = sign != 0
        if not known.all():
            score, sign = score[known], sign[known]
        said, true = score > 0, sign > 0
        self.labelled += sign.size
        self.said += int(np.count_nonzero(said))
        self.hits += int(np.count_nonzero(said & true))
        self.passes += int(np.count_nonzero(~said & ~true))
        self.area.add(score, true)

    def found(self) -> tuple[Found, float]:
        """Return the scores (none without a labelled row), and how much the AUC can be off."""
        if not self.labelled:
            return {}, 0.0
        auc, error = self.area.found()
        counts = self.hits, self.passes, self.area.positives, self.area.negatives, self.said
        return two_class_scores(*counts, auc), error


class RunningClassScores:
    """Of several classes: takes in a score a class, and codes."""

    def __init__(self, classes: int) -> None:
        self.labelled, self.classes = 0, classes
        self.counts = np.zeros((3, classes), np.int64)  # rightly called k, of class k, called k
        self.areas = [Area(MOST_HELD // classes) for _ in range(classes)] if classes <= MOST_AREAS else []

    def add(self, scores: np.ndarray, said: np.ndarray, codes: np.ndarray) -> None:
        """Take in some rows; a code below 0 says no class, and its row does not count."""
        known = codes >= 0
        if not known.all():
            scores, said, codes = scores[known], said[known], codes[known]
        self.labelled += codes.size
        of = codes[said == codes], codes, said
        self.counts += np.stack([np.bincount(each, minlength=self.classes) for each in of])
        for k, area in enumerate(self.areas):
            area.add(scores[:, k], codes == k)

    def found(self) -> tuple[Found, float]:
        """Return the scores (none without a labelled row), and how much the mean AUC can be off."""
        if not self.labelled:
            return {}, 0.0
        found = scores_of_counts(*self.counts)
        if not self.areas:
            return found, 0.0
        areas = [(auc, error) for auc, error in (area.found() for area in self.areas) if auc is not None]
        mean = sum(auc for auc, _ in areas) / len(areas) if areas else None
        error = sum(error for _, error in areas) / len(areas) if areas else 0.0
        return {**found, "auc": mean}, error
