"""How well a model predicts labels, from margins f_i = y_i (x_i . w): accuracy, balanced accuracy, AUC and F1."""

from __future__ import annotations

import math

import numpy as np


def scores(f: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return the four scores of rows with margins ``f``; one that is not defined (a class is missing) is nan.

    A row of score exactly 0 counts as negative, as LIBLINEAR counts it.
    """
    score = f * labels
    said, true = score > 0, labels > 0
    positives, negatives = int(np.count_nonzero(true)), int(np.count_nonzero(~true))
    hits, passes = int(np.count_nonzero(said & true)), int(np.count_nonzero(~said & ~true))
    recall, specificity = _ratio(hits, positives), _ratio(passes, negatives)
    return {
        "accuracy": _ratio(hits + passes, f.size),
        "balanced_accuracy": (recall + specificity) / 2,
        "auc": _auc(score, true, positives, negatives),
        "f1": _ratio(2 * hits, int(np.count_nonzero(said)) + positives),
    }


def best(found: list[dict[str, float] | None], select: str) -> int:
    """Return the first step with the highest score, the last step if no step has one."""
    values = [-math.inf if item is None or math.isnan(item[select]) else item[select] for item in found]
    highest = max(values)
    return values.index(highest) if highest > -math.inf else len(values) - 1


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _auc(score: np.ndarray, true: np.ndarray, positives: int, negatives: int) -> float:
    """Return the share of (positive, negative) pairs in the right order, ties counting half (Mann-Whitney)."""
    if not (positives and negatives):
        return math.nan
    order = np.argsort(score, kind="stable")
    ranked = score[order]
    first = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    counts = np.diff(np.append(first, ranked.size))
    ranks = np.repeat(first + (counts + 1) / 2, counts)
    total = float(ranks[true[order]].sum())
    return (total - positives * (positives + 1) / 2) / (positives * negatives)
