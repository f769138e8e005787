"""Platt's sigmoid fitted anew, for ``verify``: is a log-loss or a calibration that of these scores?

The objective is convex and has one optimum (see ``maths.sigmoid``, which states it), so whoever finds it finds the
same: here Newton's method over whole arrays, with steps halved until the objective falls.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

MOST_LOSS = 52 * math.log(2.0)  # of a row: no probability counts as less than float64's epsilon
STEPS, HALVINGS, ENOUGH = 200, 60, 1e-16


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
    if spread <= 1e-14:
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


def log_loss(score: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Return the cross-fitted log-loss, and how much it can change by a change of 1 of any score: about the slope."""
    half = np.empty(score.size, np.int8)
    for of in (true, ~true):
        rows = np.flatnonzero(of)
        half[rows[np.argsort(score[rows], kind="stable")]] = np.arange(rows.size) & 1
    total, steepest = 0.0, 0.0
    for k in (0, 1):
        slope, intercept = sigmoid_of(score[half == k], true[half == k])
        z = np.where(true, -1.0, 1.0) * (slope * score + intercept)
        total += float(np.logaddexp(0.0, np.clip(z, -MOST_LOSS, MOST_LOSS))[half != k].sum())
        steepest = max(steepest, slope)
    return total / score.size, steepest
