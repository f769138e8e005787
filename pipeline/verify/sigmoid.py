"""Platt's sigmoid fitted anew, for ``verify``: is a log-loss or a calibration that of these scores?

The objective is convex and has one optimum (see ``maths.sigmoid``, which states it), so whoever finds it finds the
same: here Newton's method over whole arrays, with steps halved until the objective falls.

Rows are dealt out to two halves in the order of their scores. Of two of a class whose scores doubts do not tell apart
either may come first, and so each be in the other's half: the sigmoids do not notice, nor does the loss of two classes.
Of several, whose probabilities of a row are put together, each row has a range.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

MOST_LOSS = 52 * math.log(2.0)  # of a row: no probability counts as less than float64's epsilon
STEPS, HALVINGS = 200, 60  # at most, for ever: 2^-60 of a step moves nothing
ENOUGH = 1e-16  # per row, of Newton's decrement squared: beyond, float64 sees no difference
LEAST_SPREAD = 1e-14  # of the largest score: as in training, scores that differ by less are all the same


class CrossFitted(NamedTuple):
    """The logit of each row by the sigmoid of the half that it is not in, its range, and the larger slope.

    The slope is infinite where doubts leave open whether there is one.
    """

    logits: np.ndarray
    low: np.ndarray
    high: np.ndarray
    steepest: float


def sigmoid_of(score: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Return slope (at least 0) and intercept of the sigmoid of all these rows."""
    positives = int(np.count_nonzero(true))
    negatives = true.size - positives
    target = np.where(true, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    level = float(target.mean()) if target.size else 0.5
    flat = 0.0, math.log(level / (1 - level))
    size = float(np.abs(score).max(initial=0.0))
    if size < 1e-290:
        return flat
    x = score / size
    centre, spread = float(x.mean()), float(x.std())
    if spread <= LEAST_SPREAD:
        return flat
    a, b = _optimum((x - centre) / spread, target, flat[1])
    return (a / spread / size, b - a * centre / spread) if a > 0 else flat


def _optimum(x: np.ndarray, target: np.ndarray, b: float) -> tuple[float, float]:
    point = np.array([0.0, b])
    design = np.stack([x, np.ones(x.size)])
    for _ in range(STEPS):
        z = point @ design
        p, value = expit(z), _objective(z, target)
        gradient = design @ (p - target)
        hessian = (design * (p * (1 - p))) @ design.T + 1e-12 * x.size * np.eye(2)
        step = np.linalg.solve(hessian, -gradient)
        if -gradient @ step <= ENOUGH * x.size:
            break
        for _ in range(HALVINGS):
            if _objective((point + step) @ design, target) < value:
                break
            step /= 2
        else:
            break
        point = point + step
    return float(point[0]), float(point[1])


def _objective(z: np.ndarray, target: np.ndarray) -> float:
    return float((np.logaddexp(0.0, z) - target * z).sum())


def log_loss(score: np.ndarray, true: np.ndarray, doubt: float) -> tuple[float, float]:
    """Return the cross-fitted log-loss, and how much it can change by a change of 1 of any score: about the slope."""
    found = cross_fitted(score, true, doubt)
    z = np.where(true, -found.logits, found.logits)
    return float(np.logaddexp(0.0, np.clip(z, -MOST_LOSS, MOST_LOSS)).sum()) / score.size, found.steepest


def cross_fitted(score: np.ndarray, true: np.ndarray, doubt: float) -> CrossFitted:
    """Fit the sigmoids of both halves; no score is off by more than ``doubt``."""
    half, either = np.empty(score.size, np.int8), np.zeros(score.size, np.bool_)
    for of in (true, ~true):
        rows = np.flatnonzero(of)
        rows = rows[np.argsort(score[rows], kind="stable")]
        half[rows] = np.arange(rows.size) & 1
        near = np.diff(score[rows]) <= 2 * doubt
        either[rows[1:]] |= near
        either[rows[:-1]] |= near
    sigmoids = [sigmoid_of(score[half == k], true[half == k]) for k in (0, 1)]
    by_each = [slope * score + intercept for slope, intercept in sigmoids]
    logits = np.where(half == 0, by_each[1], by_each[0])
    low, high = (np.where(either, f(*by_each), logits) for f in (np.minimum, np.maximum))
    open_ = any(_may_be_flat_or_not(score[half == k], doubt) for k in (0, 1))
    return CrossFitted(logits, low, high, math.inf if open_ else max(slope for slope, _ in sigmoids))


def _may_be_flat_or_not(score: np.ndarray, doubt: float) -> bool:
    size = float(np.abs(score).max(initial=0.0))
    if doubt == 0.0 or size == 0.0:
        return doubt > 0.0
    return abs(float((score / size).std()) - LEAST_SPREAD) <= 2 * doubt / size
