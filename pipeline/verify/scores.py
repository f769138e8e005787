"""Are a run's scores those of its models? From the margins of the rows left out of training; for ``verify``.

Margins in plain float64 are off by a known doubt, so that a row near 0 may have been counted on either side, and two
near each other ranked either way. A score lies between what the least and the most favourable case give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.spec import SCORES
from pipeline.verify.said import SaidStep
from pipeline.verify.sigmoid import MOST_LOSS, log_loss

SLACK = 1e-12  # of a share of rows or pairs, whatever way it was computed
LOG_LOSS, SLACK_OF_LOSS = "log_loss", 1e-6  # relative to 1 + loss: optima are found by other steps here
WEIGHTED = "weighted_accuracy"

ScoreRange = tuple[float, float]


def wrong_score(
    said: Any, f: np.ndarray, doubt: np.ndarray, labels: np.ndarray, select: str, costs: np.ndarray | None = None
) -> str:
    """Name a score that is not that of margins f; empty if there is none. Without rows there are no scores.

    The log-loss is one of them where it is selected, and so is the accuracy weighted by ``costs``.
    """
    if not labels.size:
        return "" if said is None else "scores without rows to score"
    if not isinstance(said, dict):
        return f"{labels.size} rows were left out, but there are no scores"
    ranges = _ranges(f, doubt, labels)
    if select == LOG_LOSS or LOG_LOSS in said:
        ranges[LOG_LOSS] = _range_of_loss(f * labels, doubt, labels > 0)
    if select == WEIGHTED or WEIGHTED in said:
        right = [np.where(labels > 0, f + sign * doubt > 0, f + sign * doubt >= 0) for sign in (-1, 1)]
        ranges[WEIGHTED] = weighted_range(right[0], right[1], costs)
    for name, (low, high) in ranges.items():
        if not may_be(said.get(name), low, high):
            return f"the stored {name} {said.get(name)} is not {low:.12g}"
    return ""


def may_be(said: Any, low: float, high: float) -> bool:
    """Tell whether a score lies in its range, or is undefined where it may be."""
    value = stored_number(said)
    if value is None:
        return math.isnan(low) or math.isnan(high)
    known = [bound for bound in (low, high) if not math.isnan(bound)]
    return bool(known) and min(known) - SLACK <= value <= max(known) + SLACK


def _ranges(f: np.ndarray, doubt: np.ndarray, labels: np.ndarray) -> dict[str, ScoreRange]:
    """Return the least and the largest value of every score, nan where it may be undefined."""
    score, true = f * labels, labels > 0
    positives, n = int(np.count_nonzero(true)), labels.size
    negatives = n - positives
    hits = [int(np.count_nonzero((score + sign * doubt)[true] > 0)) for sign in (-1, 1)]
    alarms = [int(np.count_nonzero((score + sign * doubt)[~true] > 0)) for sign in (1, -1)]  # the worst case first
    cases = list(zip(hits, alarms, strict=True))
    recall = [_ratio(hit, positives) + _ratio(negatives - alarm, negatives) for hit, alarm in cases]
    auc = [area_under(score, sign * doubt, true) for sign in (-1, 1)]
    return {
        "accuracy": _range([(hit + negatives - alarm) / n for hit, alarm in cases]),
        "balanced_accuracy": _range([both / 2 for both in recall]),
        "auc": _range(auc),
        "f1": _range([_ratio(2 * hit, hit + alarm + positives) for hit, alarm in cases]),
    }


def _range_of_loss(score: np.ndarray, doubt: np.ndarray, true: np.ndarray) -> ScoreRange:
    if true.all() or not true.any() or not np.isfinite(score).all():
        return math.nan, math.nan
    most = float(doubt.max())
    loss, slope = log_loss(score, true, most)
    slack = SLACK_OF_LOSS * (1 + loss) + (4 * slope * most if most else 0.0)
    return (loss - slack, loss + slack) if slack < 1 else (0.0, MOST_LOSS)


def weighted_range(sure: np.ndarray, may: np.ndarray, costs: np.ndarray | None) -> ScoreRange:
    """Return the least and the largest share of the costs, given which rows are, and may be, rightly called."""
    if costs is None:
        return math.nan, math.nan
    exponent = math.frexp(float(costs.max()))[1]
    scaled = [math.ldexp(c, -exponent) for c in costs.tolist()]  # exact but where it does not matter: sums are finite
    total = math.fsum(scaled)
    low, high = (math.fsum(c for c, right in zip(scaled, each, strict=True) if right) for each in (sure, may))
    return low / total, high / total


def _range(values: list[float]) -> ScoreRange:
    return values[0], values[1]


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def area_under(score: np.ndarray, shift: np.ndarray, true: np.ndarray) -> float:
    """Return the share of pairs in the right order, positives shifted by their doubt and negatives against theirs."""
    up, down = (score + shift)[true], np.sort((score - shift)[~true])
    below = np.searchsorted(down, up, "left") + np.searchsorted(down, up, "right")
    return float(below.sum()) / (2 * up.size * down.size) if up.size and down.size else math.nan


def best_steps(found: Sequence[Any], select: str) -> set[int | None]:
    """Return what may be called the best step: the first with the best score; without any, none or the last."""
    values = {k: sign_of(select) * value for k, item in enumerate(found) if (value := _score(item, select)) is not None}
    if not values:
        return {None, len(found) - 1}
    return {min(k for k, value in values.items() if value == max(values.values()))}


def sign_of(select: str) -> int:
    """Return 1 for a score of which more is better, else -1."""
    return -1 if select == LOG_LOSS else 1


def scores_at(step: SaidStep) -> Any:
    """Return what a step says of its scores."""
    return step.facts.get("scores")


def mean_scores(folds: Sequence[Sequence[Any]]) -> list[dict[str, float | None]]:
    """Return the mean scores by step, over the folds that have a score at every step; None if there is none."""
    means: list[dict[str, float | None]] = [{} for _ in folds[0]]
    for name in SCORES:
        columns = [[_score(item, name) for item in fold] for fold in folds]
        whole = [[value for value in column if value is not None] for column in columns if None not in column]
        for k, mean in enumerate(means):
            mean[name] = math.fsum(column[k] for column in whole) / len(whole) if whole else None
    return means


def same_scores(said: Any, found: Sequence[dict[str, float | None]]) -> bool:
    """Tell whether a list of scores by step is what was found."""
    if not isinstance(said, list) or len(said) != len(found):
        return False
    pairs = ((_score(item, name), mean[name]) for item, mean in zip(said, found, strict=True) for name in SCORES)
    return all(one == two or (one is not None and two is not None and abs(one - two) <= SLACK) for one, two in pairs)


def _score(item: Any, name: str) -> float | None:
    return stored_number(item.get(name)) if isinstance(item, dict) else None


def stored_number(x: Any) -> float | None:
    """Return a number; None for what is none (null, or NaN in runs of version 1)."""
    return float(x) if isinstance(x, int | float) and not math.isnan(x) else None
