"""Scores of rows in bins, by class: enough to draw ROC, precision-recall and reliability without the rows.

Bins are (e_0, e_1], (e_1, e_2], ... with as many rows in each as can be. Edges lie halfway between two scores, so that
who computes scores again, with other rounding, finds the same rows in a bin. 0 is an edge as well: a score above 0 says
positive, and the confusion is exact. Below the first edge and above the last is a bin, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pipeline.dataclass import dataclass

BINS = 200  # half a percent of the rows each: a curve of a page is hardly finer; run.json keeps 600 numbers


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
    below, above = ranked[places - 1], ranked[places]
    halfway = (below + (above - below) / 2)[(places > 0) & (below < above)]
    edges = np.unique(np.append(halfway, 0.0) + 0.0)  # + 0.0: no -0.0
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
