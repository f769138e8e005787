"""Scores of rows in bins, by class: enough to draw ROC, precision-recall and reliability without the rows.

Bins are (e_0, e_1], (e_1, e_2], ... between edges that are scores themselves, as many in each as rows allow, and 0 is
an edge: a score above 0 says positive, so that the confusion is exact. Below the first edge and above the last is a bin,
too. A curve through its corners is off by no more than a bin's rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

BINS = 200


@dataclass(frozen=True)
class ScoreHistogram:
    """Counts of negative and positive rows in the bins that ``edges`` part: one more than there are edges."""

    edges: np.ndarray
    negative: np.ndarray
    positive: np.ndarray


def score_histogram(scores: np.ndarray, labels: np.ndarray) -> ScoreHistogram | None:
    """Return the histogram of scores, positive where ``labels`` are; None if some are beyond float64's range."""
    if not scores.size or not np.isfinite(scores).all():
        return None
    ranked = np.sort(scores)
    places = (np.arange(1, BINS) * ranked.size) // BINS
    edges = np.unique(np.append(ranked[places], 0.0) + 0.0)  # + 0.0: no -0.0
    bins, true = np.searchsorted(edges, scores, "left"), labels > 0
    negative, positive = (np.bincount(bins[side], minlength=edges.size + 1) for side in (~true, true))
    return ScoreHistogram(edges, negative, positive)


def confusion(columns: Iterable[np.ndarray], codes: np.ndarray, classes: int) -> np.ndarray:
    """Return how many rows of each class (a row of the matrix) the models called which (a column).

    ``columns`` are the scores of all rows by each class's model in turn; of equal scores the first counts.
    """
    top, said = np.full(codes.size, -np.inf), np.zeros(codes.size, np.int64)
    for k, score in enumerate(columns):
        above = score > top
        top[above], said[above] = score[above], k
    return np.bincount(codes * classes + said, minlength=classes * classes).reshape(classes, classes)
