"""Are the scores of several classes together those of the models? From x_i . w_k of the rows that were scored.

Scores s_ik in plain float64 are off by a known doubt, so that of two near each other either may have been the larger. A
row is called k for sure if s_ik is the largest whatever the doubts, and may be called k if it can be. A stored score
lies between what the least and the most favourable case give. A log-loss follows from sigmoids of the scores, class by
class, whose probabilities of a row are divided by their sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.reading.labels import LabelMap
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.verify.held_out import HeldOutClasses
from pipeline.verify.said import SaidRun
from pipeline.verify.scores import LOG_LOSS, SLACK_OF_LOSS, WEIGHTED, area_under, may_be, weighted_range
from pipeline.verify.sigmoid import MOST_LOSS, cross_fitted
from pipeline.verify.stored_model import Model, read_model
from pipeline.verify.validation import Validation

CELL_BYTES, MOST_BYTES = 16, 512 << 20  # of scores and doubts: a cell is one of a row, a class and a step


@dataclass(frozen=True)
class ScoredRows:
    """The rows that models are scored on: those of ``data`` that are ``wanted``, with the codes of their classes.

    ``costs`` are theirs in training, with the weights of their classes; None where no score needs them.
    """

    data: Dataset
    wanted: np.ndarray
    codes: np.ndarray
    costs: np.ndarray | None = None


def wrong_class_scores(
    engine: Engine,
    runs: Sequence[SaidRun],
    views: Sequence[Dataset],
    rows: ScoredRows,
    said: Any,
    takers: Sequence[HeldOutClasses],
) -> Iterator[tuple[int, str]]:
    """Yield the steps whose stored scores are not those of the classes' models, with what is wrong.

    ``takers`` are told what rows are called, and their scores.
    """
    steps, n = len(runs[0].steps), rows.codes.size
    if said is None or not n:
        for k in range(steps if (said is None) != (not n) else 0):
            yield k, "scores without rows to score" if n == 0 else f"{n} rows were scored, but there are no scores"
        return
    at_once = max(1, MOST_BYTES // (CELL_BYTES * n * len(runs)))
    for first in range(0, steps, at_once):
        numbers = range(first, min(steps, first + at_once))
        columns = [_margins(engine, run, view, rows, numbers) for run, view in zip(runs, views, strict=True)]
        for k, number in enumerate(numbers):
            s, doubt = (np.stack([column[part][:, k] for column in columns], axis=1) for part in (0, 1))
            for taker in takers:
                taker.take(float(runs[0].steps[number].facts["c"]), s, doubt, _calls(s, doubt), rows.codes)
            problem = _wrong(said[number], s, doubt, rows, runs[0].spec.select)
            if problem:
                yield number, problem


def stored_classes(engine: Engine, data: Dataset, table: np.ndarray) -> np.ndarray:
    """Return the classes of all rows, by the code or the sign that they are stored with."""
    parts = list(engine.stream(_shard_labels, data.shards))
    labels = np.concatenate(parts)
    return table[labels if data.classes else (labels + 1) // 2]


def _shard_labels(shard: Shard) -> np.ndarray:
    return np.array(shard.load().labels)


def _margins(
    engine: Engine, run: SaidRun, view: Dataset, rows: ScoredRows, numbers: range
) -> tuple[np.ndarray, np.ndarray]:
    """Return x_i . w of one class, and what float64 can do to each, for some steps."""
    signed = rows.data.against_rest(0) if rows.data.classes else rows.data
    nameless = replace(signed, labels=LabelMap((), ()))  # which class a label is does not matter here
    models = [_model(run, number, view) for number in numbers]
    parts = Validation(engine, nameless).margins(run, view, models)
    f, doubt, labels = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return (f * labels[:, None])[rows.wanted], doubt[rows.wanted]


def _model(run: SaidRun, number: int, view: Dataset) -> Model:
    try:
        return read_model(run.steps[number].model.path, view.n_rows, view.n_features)
    except RunError as error:
        raise RunError(f"{run.path}: step {number}: {error}; do not trust the run: train again") from error


def _wrong(said: Any, s: np.ndarray, doubt: np.ndarray, rows: ScoredRows, select: str) -> str:
    if not isinstance(said, dict):
        return "there are no scores of it"
    codes = rows.codes
    ranges = _ranges(s, doubt, codes)
    if select == LOG_LOSS or LOG_LOSS in said:
        ranges[LOG_LOSS] = _range_of_loss(s, doubt, codes)
    if select == WEIGHTED or WEIGHTED in said:
        sure, may = (calls[np.arange(codes.size), codes] for calls in _calls(s, doubt))
        ranges[WEIGHTED] = weighted_range(sure, may, rows.costs)
    for name, (low, high) in ranges.items():
        if not may_be(said.get(name), low, high):
            return f"the stored {name} {said.get(name)} of all classes is not {low:.12g}"
    return ""


def _ranges(s: np.ndarray, doubt: np.ndarray, codes: np.ndarray) -> dict[str, tuple[float, float]]:
    """Return the least and the largest value of every score, nan where it is not defined."""
    n, classes = s.shape
    sure, may = _calls(s, doubt)
    true = codes[:, None] == np.arange(classes)
    count, hits = true.sum(axis=0), [(sure & true).sum(axis=0), (may & true).sum(axis=0)]
    calls = [may.sum(axis=0), sure.sum(axis=0)]  # the worst case first
    there = count > 0
    recall = [float(np.mean(hit[there] / count[there])) if there.sum() > 1 else np.nan for hit in hits]
    areas = [[area_under(s[:, k], sign * doubt[:, k], true[:, k]) for k in np.flatnonzero(there)] for sign in (-1, 1)]
    auc = [float(np.mean(each)) if there.sum() > 1 else np.nan for each in areas]
    f1 = [_f1(hits[0], calls[0], count, calls[0] + count > 0), _f1(hits[1], calls[1], count, calls[1] + count > 0)]
    return {
        "accuracy": (float(hits[0].sum()) / n, float(hits[1].sum()) / n),
        "balanced_accuracy": (recall[0], recall[1]),
        "auc": (auc[0], auc[1]),
        "f1": (f1[0], f1[1]),
    }


def _calls(s: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tell which classes rows are called for sure, and which they may be called."""
    low, high = s - doubt, s + doubt
    return low > _largest_other(high), high >= _largest_other(low)


def _range_of_loss(s: np.ndarray, doubt: np.ndarray, codes: np.ndarray) -> tuple[float, float]:
    if (codes == codes[0]).all() or not np.isfinite(s).all():
        return np.nan, np.nan
    most = float(doubt.max())
    found = [cross_fitted(s[:, k], codes == k, most) for k in range(s.shape[1])]
    low, high = (expit(np.stack(each, axis=1)) for each in ([fit.low for fit in found], [fit.high for fit in found]))
    least, largest = _mean_loss(high, low, codes), _mean_loss(low, high, codes)
    slope = max(fit.steepest for fit in found)
    slack = SLACK_OF_LOSS * (1 + largest) + (8 * slope * most if most else 0.0)
    return (least - slack, largest + slack) if slack < 1 else (0.0, MOST_LOSS)


def _mean_loss(own: np.ndarray, others: np.ndarray, codes: np.ndarray) -> float:
    """Return the loss of rows with these probabilities of their class and of the others, before these add up to 1."""
    rows = np.arange(codes.size)
    p, rest = own[rows, codes], others.copy()
    rest[rows, codes] = p
    total = rest.sum(axis=1)
    share = np.divide(p, total, out=np.full(total.size, 1 / own.shape[1]), where=total > 0)
    return float(np.minimum(-np.log(np.maximum(share, np.finfo(float).tiny)), MOST_LOSS).mean())


def _f1(hits: np.ndarray, calls: np.ndarray, count: np.ndarray, named: np.ndarray) -> float:
    return float(np.mean(2 * hits[named] / (calls + count)[named]))


def _largest_other(x: np.ndarray) -> np.ndarray:
    """Return for every entry of a row the largest of the others."""
    top = np.argmax(x, axis=1)
    first = x[np.arange(x.shape[0]), top]
    rest = x.copy()
    rest[np.arange(x.shape[0]), top] = -np.inf
    second = rest.max(axis=1)
    found = np.repeat(first[:, None], x.shape[1], axis=1)
    found[np.arange(x.shape[0]), top] = second
    return found
