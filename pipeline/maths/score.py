"""How well a model predicts labels, from margins f_i = y_i (x_i . w): accuracy, balanced accuracy, AUC and F1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

Scores = Mapping[str, float | None]


def scores(f: np.ndarray, labels: np.ndarray) -> dict[str, float | None]:
    """Return the four scores of rows with margins ``f``; one that is not defined (a class is missing) is None.

    A row of score exactly 0 counts as negative, as LIBLINEAR counts it.
    """
    score = f * labels
    said, true = score > 0, labels > 0
    positives, negatives = int(np.count_nonzero(true)), int(np.count_nonzero(~true))
    hits, passes = int(np.count_nonzero(said & true)), int(np.count_nonzero(~said & ~true))
    recall, specificity = _ratio(hits, positives), _ratio(passes, negatives)
    return {
        "accuracy": _ratio(hits + passes, f.size),
        "balanced_accuracy": None if recall is None or specificity is None else (recall + specificity) / 2,
        "auc": _auc(score, true, positives, negatives),
        "f1": _ratio(2 * hits, int(np.count_nonzero(said)) + positives),
    }


def best(found: Sequence[Scores | None], select: str) -> int | None:
    """Return the first step with the highest score; None if no step has one."""
    values = {k: value for k, item in enumerate(found) if item is not None and (value := item[select]) is not None}
    return max(values, key=lambda k: (values[k], -k)) if values else None


def mean_scores(folds: Sequence[Sequence[Scores]]) -> list[dict[str, float | None]]:
    """Return the mean score of each step over the folds, given the scores of each fold's steps.

    A fold counts where it has the score at every step, so that steps are compared on the same rows; a score that no
    fold has is None.
    """
    means: list[dict[str, float | None]] = [{} for _ in folds[0]]
    for name in folds[0][0]:
        columns = [[step[name] for step in fold] for fold in folds]
        whole = [[value for value in column if value is not None] for column in columns if None not in column]
        for k, mean in enumerate(means):
            mean[name] = math.fsum(column[k] for column in whole) / len(whole) if whole else None
    return means


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _auc(score: np.ndarray, true: np.ndarray, positives: int, negatives: int) -> float | None:
    """Return the share of (positive, negative) pairs in the right order, ties counting half (Mann-Whitney)."""
    if not (positives and negatives):
        return None
    order = np.argsort(score, kind="stable")
    ranked = score[order]
    first = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    counts = np.diff(np.append(first, ranked.size))
    ranks = np.repeat(first + (counts + 1) / 2, counts)
    total = float(ranks[true[order]].sum())
    return (total - positives * (positives + 1) / 2) / (positives * negatives)
