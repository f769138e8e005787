"""How well K models, one against the rest each, predict K classes: the same scores by the same names.

Row i has the class code y_i and the score s_ik by the model of class k; the model says argmax_k s_ik, of equals the
first, as LinearSVC has it. With c_k rows of class k, said_k rows called k and hits_k of them rightly:

    accuracy             sum_k hits_k / n
    balanced accuracy    mean of hits_k / c_k over the classes that have rows
    F1                   mean of 2 hits_k / (said_k + c_k) over the classes that have rows or were said
    AUC                  mean over the classes that have rows of the AUC of s_k, k against the rest
    log-loss             of p_ik / sum_j p_ij, p_k being the cross-fitted sigmoid of s_k (``maths.sigmoid``)
    weighted accuracy    sum of c_i over the rows that are rightly called / sum of c_i

All but accuracy and F1 need rows of two classes at least, else they are None. Scores come a class at a time, as the
models do: in memory are a few numbers a row, whatever K is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pipeline.maths.score import LOG_LOSS, WEIGHTED, auc, weighted_accuracy
from pipeline.maths.sigmoid import LEAST_PROBABILITY, cross_fitted_probabilities


def class_scores(
    columns: Iterable[np.ndarray], codes: np.ndarray, select: str = "accuracy", costs: np.ndarray | None = None
) -> dict[str, float | None]:
    """Return the scores of rows with class ``codes``, given the scores of all rows by each class's model in turn.

    As for two classes, the log-loss and the accuracy weighted by ``costs`` are there only if selected by.
    """
    n, several = codes.size, codes.size > 0 and bool((codes != codes[0]).any())
    top, said = np.full(n, -np.inf), np.zeros(n, np.int64)
    total, of_truth = np.zeros(n), np.zeros(n)
    areas, classes, finite = list[float](), 0, True
    for k, score in enumerate(columns):
        true, classes = codes == k, k + 1
        above = score > top
        top[above], said[above] = score[above], k
        order = np.argsort(score, kind="stable")
        area = auc(score[order], true[order])
        areas += [] if area is None else [area]
        finite = finite and bool(np.isfinite(score).all())
        if select == LOG_LOSS and several and finite:
            p = cross_fitted_probabilities(score, true)
            total += p
            of_truth[true] = p[true]
    found = {**label_scores(said, codes, classes), "auc": sum(areas) / len(areas) if areas else None}
    found = {name: found[name] for name in ("accuracy", "balanced_accuracy", "auc", "f1")}
    if select == LOG_LOSS:
        found[LOG_LOSS] = _loss(of_truth, total, classes) if several and finite else None
    if select == WEIGHTED:
        found[WEIGHTED] = weighted_accuracy(said == codes, costs)
    return found


def label_scores(said: np.ndarray, codes: np.ndarray, classes: int) -> dict[str, float | None]:
    """Return accuracy, balanced accuracy and F1 of the class codes that were said."""
    rows, calls = np.bincount(codes, minlength=classes), np.bincount(said, minlength=classes)
    return scores_of_counts(np.bincount(codes[said == codes], minlength=classes), rows, calls)


def scores_of_counts(hits: np.ndarray, rows: np.ndarray, calls: np.ndarray) -> dict[str, float | None]:
    """Return the same, given how often each class was rightly said, was there, and was said."""
    there, named = rows > 0, rows + calls > 0
    several, n = np.count_nonzero(there) > 1, int(rows.sum())
    return {
        "accuracy": float(hits.sum()) / n if n else None,
        "balanced_accuracy": float(np.mean(hits[there] / rows[there])) if several else None,
        "f1": float(np.mean(2 * hits[named] / (rows + calls)[named])) if n else None,
    }


def _loss(of_truth: np.ndarray, total: np.ndarray, classes: int) -> float:
    """Return the mean log-loss; where no class has a probability, all are equal."""
    p = np.divide(of_truth, total, out=np.full(total.size, 1 / classes), where=total > 0)
    return float(-np.log(np.maximum(p, LEAST_PROBABILITY)).mean())
