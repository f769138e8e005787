"""How well a model predicts labels, from margins f_i = y_i (x_i . w): accuracy, balanced accuracy, AUC, F1, log-loss.

An SVM has no probabilities of its own: its log-loss is that of Platt's sigmoid, fitted on one half of the scored rows
and judged on the other (``maths.sigmoid``). It takes about as long as all others together, and is there only where it
is selected. The smaller it is the better; of the others, the larger. ``gain`` has one direction for all.

The weighted accuracy counts rows as training does, by their costs c_i: sum of c_i over the rows that are rightly called
over sum of c_i. It, too, is there only where it is selected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.maths.sigmoid import cross_fitted_loss

LOG_LOSS, WEIGHTED = "log_loss", "weighted_accuracy"
WHERE_SELECTED = (LOG_LOSS, WEIGHTED)  # the scores that are not made unless they are asked for

Scores = Mapping[str, float | None]  # by name (the log-loss only if it was selected); None: not defined


def scores(
    f: np.ndarray, labels: np.ndarray, select: str = "accuracy", costs: np.ndarray | None = None
) -> dict[str, float | None]:
    """Return the four scores of rows with margins ``f``; one that is not defined (a class is missing) is None.

    The log-loss is the fifth if it is the one to ``select`` by, or the accuracy weighted by ``costs`` (None: all are
    1). A row of score exactly 0 counts as negative, as LIBLINEAR counts it.
    """
    score = f * labels
    said, true = score > 0, labels > 0
    positives, negatives = int(np.count_nonzero(true)), int(np.count_nonzero(~true))
    hits, passes = int(np.count_nonzero(said & true)), int(np.count_nonzero(~said & ~true))
    order = np.argsort(score, kind="stable")
    ranked, truth = score[order], true[order]
    found = two_class_scores(hits, passes, positives, negatives, int(np.count_nonzero(said)), auc(ranked, truth))
    if select == LOG_LOSS:
        defined = positives and negatives and np.isfinite(ranked[[0, -1]]).all()
        found[LOG_LOSS] = cross_fitted_loss(ranked[truth], ranked[~truth]) if defined else None
    if select == WEIGHTED:
        found[WEIGHTED] = weighted_accuracy(said == true, costs)
    return found


def weighted_accuracy(right: np.ndarray, costs: np.ndarray | None) -> float | None:
    """Return the share that rows which are rightly called have of all costs; None without rows."""
    if not right.size:
        return None
    shares = np.ones(right.size) if costs is None else costs / costs.max()  # whose sum is finite
    return min(1.0, float(shares[right].sum()) / float(shares.sum()))


def two_class_scores(
    hits: int, passes: int, positives: int, negatives: int, said: int, area: float | None
) -> dict[str, float | None]:
    """Return the four scores: ``said`` rows were called positive, ``hits`` of them rightly, ``passes`` others, too."""
    recall, specificity = _ratio(hits, positives), _ratio(passes, negatives)
    return {
        "accuracy": _ratio(hits + passes, positives + negatives),
        "balanced_accuracy": None if recall is None or specificity is None else (recall + specificity) / 2,
        "auc": area,
        "f1": _ratio(2 * hits, said + positives),
    }


def gain(name: str, value: float) -> float:
    """Return a score such that more is better."""
    return -value if name == LOG_LOSS else value


def best(found: Sequence[Scores | None], select: str) -> int | None:
    """Return the first step with the best score; None if no step has one."""
    values = {k: value for k, item in enumerate(found) if item is not None and (value := item.get(select)) is not None}
    return max(values, key=lambda k: (gain(select, values[k]), -k)) if values else None


def one_se(cs: Sequence[float], means: Sequence[Scores], errors: Sequence[Scores], select: str) -> int | None:
    """Return the step with the smallest C whose mean score is within one standard error, the best's, of the best.

    Without a standard error that is the best step (of equals the one with the smallest C); None if there is none.
    """
    top = best(means, select)
    if top is None:
        return None
    values = {k: gain(select, value) for k, item in enumerate(means) if (value := item.get(select)) is not None}
    least = values[top] - (errors[top].get(select) or 0.0)
    return min((k for k, value in values.items() if value >= least), key=lambda k: cs[k])


def mean_scores(folds: Sequence[Sequence[Scores]]) -> list[dict[str, float | None]]:
    """Return the mean score of each step over the folds, given the scores of each fold's steps.

    A fold counts where it has the score at every step, so that steps are compared on the same rows; a score that no
    fold has is None.
    """
    return [
        {name: math.fsum(values) / len(values) if values else None for name, values in step.items()}
        for step in _by_step(folds)
    ]


def standard_errors(folds: Sequence[Sequence[Scores]]) -> list[dict[str, float | None]]:
    """Return the standard error of each of ``mean_scores``: the folds' sample deviation over the root of their number.

    None where fewer than two folds count.
    """
    return [{name: _standard_error(values) for name, values in step.items()} for step in _by_step(folds)]


def _by_step(folds: Sequence[Sequence[Scores]]) -> list[dict[str, list[float]]]:
    """Return the scores of the folds that count, by step and name."""
    found: list[dict[str, list[float]]] = [{} for _ in folds[0]]
    for name in folds[0][0]:
        columns = [[step[name] for step in fold] for fold in folds]
        whole = [[value for value in column if value is not None] for column in columns if None not in column]
        for k, step in enumerate(found):
            step[name] = [column[k] for column in whole]
    return found


def _standard_error(values: list[float]) -> float | None:
    count = len(values)
    if count < 2:
        return None
    mean = math.fsum(values) / count
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def auc(ranked: np.ndarray, true: np.ndarray) -> float | None:
    """Return the share of (positive, negative) pairs in the right order, ties counting half (Mann-Whitney).

    The scores ascend; None where a class is missing.
    """
    positives = int(np.count_nonzero(true))
    negatives = true.size - positives
    if not (positives and negatives):
        return None
    first = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    counts = np.diff(np.append(first, ranked.size))
    ranks = np.repeat(first + (counts + 1) / 2, counts)
    total = float(ranks[true].sum())
    return (total - positives * (positives + 1) / 2) / (positives * negatives)
