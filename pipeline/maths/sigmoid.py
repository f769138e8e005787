"""Platt's sigmoid: probabilities p = 1/(1 + exp(-z)), z = a s + b, from scores s (Platt 1999; Lin, Lin, Weng 2007).

With N+ positive and N- negative rows, a and b minimise

    sum_i log(1 + exp(z_i)) - t_i z_i,    t_i = (N+ + 1)/(N+ + 2) or 1/(N- + 2) as row i is positive or negative,

targets that are off 1 and 0 so that separable scores have a finite optimum. Newton's method with backtracking finds it
from a = 0; scores are brought to mean 0 and deviation 1 before, so that their size does not matter. Of many rows every
some-th is fitted first: from there two or three steps over all rows are enough. A decreasing sigmoid would contradict
the labels that the model predicts, so a >= 0; where the optimum has a < 0, that of a = 0 is the best with a >= 0 (the
objective is convex), and it is the prior.

``cross_fitted_loss`` is what such probabilities are worth on rows they were not fitted on. Each class is ordered by
score and dealt out in turns to two halves; the sigmoid of either half is judged on the other. Nothing but scores and
labels matters, not the order of rows; and as an order statistic moves no further than the scores do, scores that are
rounded otherwise give the same loss but for rounding.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.jit import alike, kernel

ROWS_AT_FIRST = 4096  # of each class, to start from
MOST_STEPS, LEAST_STEP = 100, 1e-10  # Lin, Lin and Weng's
DECREASE = 1e-4  # of what the gradient promises: a step is taken if it gets as much
NEAR = 1e-9  # per row, of Newton's decrement squared: the step from there is the last, and leaves its square
RIDGE = 1e-12  # per row, beside the Hessian: it is 0 where all probabilities are 0 or 1
LEAST_SCORE = 1e-290  # scores that are all smaller are 0: a slope for them would be beyond float64's range
LEAST_SPREAD = 1e-14  # of the largest score: scores that differ by less are all the same
LEAST_PROBABILITY = 2.0**-52  # of what a row is, in a log-loss: float64's epsilon, as scikit-learn has it
MOST_LOSS = -math.log(LEAST_PROBABILITY)
_PRODUCT = 512  # factors from 1 to 2 that are multiplied before a logarithm is taken


@dataclass(frozen=True)
class Sigmoid:
    """p = 1/(1 + exp(-(slope s + intercept))), with a slope of at least 0."""

    slope: float
    intercept: float

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of the positive class for each score."""
        with np.errstate(over="ignore"):  # a score beyond the range has the probability 0 or 1
            z = self.slope * scores + self.intercept
        small = np.exp(-np.abs(z))
        return np.where(z >= 0, 1.0, small) / (1.0 + small)


def fit_sigmoid(positive: np.ndarray, negative: np.ndarray) -> Sigmoid:
    """Return the sigmoid of the scores of positive and of negative rows; either class may be missing."""
    n_positive, n_negative = positive.size, negative.size
    prior = math.log((n_positive + 1) / (n_negative + 1))
    unit, centre, spread = _frame(positive, negative)
    if not spread:
        return Sigmoid(0.0, prior)
    frame = unit / spread, centre / spread
    targets = (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2)
    start, some = (0.0, prior), [part[:: -(-part.size // ROWS_AT_FIRST) or 1] for part in (positive, negative)]
    if some[0].size + some[1].size < n_positive + n_negative:
        start = _newton([np.ascontiguousarray(part) for part in some], targets, frame, start)
    a, b = _newton([positive, negative], targets, frame, start)
    if not a > 0.0:
        return Sigmoid(0.0, _prior_at(targets, n_positive, n_negative))
    return Sigmoid(min(a * frame[0], 1e308), min(max(b - a * frame[1], -1e308), 1e308))


def cross_fitted_loss(positive: np.ndarray, negative: np.ndarray) -> float:
    """Return the mean log-loss of sigmoids fitted on the other half; the scores of both classes ascend."""
    halves = [[np.ascontiguousarray(part[k::2]) for part in (positive, negative)] for k in (0, 1)]
    total = 0.0
    for fitted, judged in (halves, halves[::-1]):
        found = fit_sigmoid(fitted[0], fitted[1])
        total += sum(
            _loss(*alike(part), found.slope, found.intercept, sign)
            for part, sign in zip(judged, (-1.0, 1.0), strict=True)
        )
    return total / (positive.size + negative.size)


def cross_fitted_probabilities(score: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return each row's probability by the sigmoid of the half that it is not in, in row order."""
    order = np.argsort(score, kind="stable")
    half = np.empty(score.size, np.bool_)
    for rows in (order[true[order]], order[~true[order]]):
        half[rows] = np.arange(rows.size) % 2 == 1
    found = np.empty(score.size)
    for fitted in (half, ~half):
        sigmoid = fit_sigmoid(np.sort(score[fitted & true]), np.sort(score[fitted & ~true]))
        found[~fitted] = sigmoid.probabilities(score[~fitted])
    return found


def _prior_at(targets: tuple[float, float], n_positive: int, n_negative: int) -> float:
    """Return the b that is best with a = 0: the mean target's logit."""
    one, other = targets
    mean = (n_positive * one + n_negative * other) / (n_positive + n_negative)
    return math.log(mean / (1 - mean))


def _frame(positive: np.ndarray, negative: np.ndarray) -> tuple[float, float, float]:
    """Return the unit (1 over the largest size), and mean and deviation of all scores times it; 0 if they are equal."""
    count = positive.size + negative.size
    largest = max((float(np.abs(part).max()) for part in (positive, negative) if part.size), default=0.0)
    if largest < LEAST_SCORE:
        return 1.0, 0.0, 0.0
    unit = 1.0 / largest
    sums = [_moments(*alike(part), unit, 0.0) for part in (positive, negative)]
    centre = sum(first for first, _ in sums) / count
    squares = sum(_moments(*alike(part), unit, centre)[1] for part in (positive, negative))
    spread = math.sqrt(squares / count)
    return unit, centre, spread if spread > LEAST_SPREAD else 0.0


def _newton(
    parts: list[np.ndarray], targets: tuple[float, float], frame: tuple[float, float], start: tuple[float, float]
) -> tuple[float, float]:
    """Return the optimum (a, b) for x = s frame[0] - frame[1]."""
    rows = sum(part.size for part in parts)

    def at(a: float, b: float) -> list[float]:
        sums = np.zeros(6)
        for part, target in zip(parts, targets, strict=True):
            _add_sums(*alike(part), *frame, a, b, target, sums)
        return sums.tolist()

    a, b = start
    value, ga, gb, haa, hab, hbb = at(a, b)
    for _ in range(MOST_STEPS):
        haa, hbb = haa + RIDGE * rows, hbb + RIDGE * rows
        determinant = haa * hbb - hab * hab
        da, db = -(hbb * ga - hab * gb) / determinant, -(haa * gb - hab * ga) / determinant
        promised = -(ga * da + gb * db)
        if promised <= NEAR * rows:
            return a + da, b + db
        step = 1.0
        while (sums := at(a + step * da, b + step * db))[0] > value - DECREASE * step * promised:
            step /= 2
            if step < LEAST_STEP:
                return a, b
        a, b = a + step * da, b + step * db
        value, ga, gb, haa, hab, hbb = sums
    return a, b


@kernel
def _moments(scores, unit, centre):  # type: ignore[no-untyped-def]
    """Return the sums of x = s unit - centre and of its square."""
    first, second = 0.0, 0.0
    for s in scores:
        x = s * unit - centre
        first += x
        second += x * x
    return first, second


@kernel
def _add_sums(scores, factor, shift, a, b, target, sums):  # type: ignore[no-untyped-def]
    """Add objective, gradient and Hessian over x = s factor - shift to ``sums``.

    log(1 + exp(z)) is max(z, 0) + log(1 + exp(-|z|)); the logarithms of a block are that of one product.
    """
    for first in range(0, scores.size, _PRODUCT):
        value, ga, gb, haa, hab, hbb, product = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0
        for i in range(first, min(first + _PRODUCT, scores.size)):
            x = scores[i] * factor - shift
            z = a * x + b
            small = math.exp(-abs(z))
            product *= 1.0 + small
            p = (1.0 if z >= 0.0 else small) / (1.0 + small)
            spread = small / ((1.0 + small) * (1.0 + small))
            value += max(z, 0.0) - target * z
            ga += (p - target) * x
            gb += p - target
            haa += spread * x * x
            hab += spread * x
            hbb += spread
        sums[0] += value + math.log(product)
        sums[1] += ga
        sums[2] += gb
        sums[3] += haa
        sums[4] += hab
        sums[5] += hbb


@kernel
def _loss(scores, slope, intercept, sign):  # type: ignore[no-untyped-def]
    """Return the sum of log(1 + exp(sign z)), each at most MOST_LOSS."""
    total = 0.0
    for first in range(0, scores.size, _PRODUCT):
        value, product = 0.0, 1.0
        for i in range(first, min(first + _PRODUCT, scores.size)):
            z = min(max(sign * (slope * scores[i] + intercept), -MOST_LOSS), MOST_LOSS)
            value += max(z, 0.0)
            product *= 1.0 + math.exp(-abs(z))
        total += value + math.log(product)
    return total
