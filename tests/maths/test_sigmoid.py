"""Platt's sigmoid: scikit-learn's optimum, any scores whatever, and the log-loss of rows that were not fitted on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.calibration import _sigmoid_calibration
from sklearn.metrics import log_loss

from pipeline.maths.score import scores
from pipeline.maths.sigmoid import ROWS_AT_FIRST, cross_fitted_loss, cross_fitted_probabilities, fit_sigmoid

ANY = st.floats(allow_nan=False, allow_infinity=False)


def objective(a, b, positive, negative):
    """What the sigmoid minimises, written down again."""
    one, other = (positive.size + 1) / (positive.size + 2), 1 / (negative.size + 2)
    total = 0.0
    for s, t in ((positive, one), (negative, other)):
        z = a * s + b
        total += float((np.logaddexp(0, z) - t * z).sum())
    return total


def rows(n, seed=0, share=0.3, apart=1.5):
    rng = np.random.default_rng(seed)
    true = rng.random(n) < share
    true[:2] = True, False
    return rng.standard_normal(n) + apart * true - 0.7, true


@pytest.mark.parametrize("n", [30, 1000, 5 * ROWS_AT_FIRST])
@pytest.mark.parametrize(("size", "shift"), [(1.0, 0.0), (1e-5, 0.0), (1e4, 3e4)])
def test_the_optimum_is_scikit_learns(n, size, shift):
    score, true = rows(n)
    score = size * score + shift
    found = fit_sigmoid(score[true], score[~true])
    if size == 1.0:
        a, b = _sigmoid_calibration(score, np.where(true, 1, -1))
        assert (found.slope, found.intercept) == pytest.approx((-a, -b), rel=1e-4)
    best = objective(found.slope, found.intercept, score[true], score[~true])
    for factor in (0.999, 1.001):
        assert objective(factor * found.slope, found.intercept, score[true], score[~true]) > best
        moved = found.intercept + (factor - 1)
        assert objective(found.slope, moved, score[true], score[~true]) > best


@given(st.lists(ANY, max_size=40), st.lists(ANY, max_size=40))
def test_any_scores_have_a_sigmoid(positive, negative):
    positive, negative = np.array(positive, float), np.array(negative, float)
    found = fit_sigmoid(positive, negative)
    assert np.isfinite([found.slope, found.intercept]).all()
    assert found.slope >= 0
    p = found.probabilities(np.sort(np.concatenate([positive, negative])))
    assert ((p >= 0) & (p <= 1)).all()
    assert (np.diff(p) >= -1e-15).all()


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e300])
def test_separable_scores(size):
    plain = np.linspace(1, 2, 5000)
    positive, negative = size * plain, -size * plain
    found = fit_sigmoid(positive, negative)
    slopes = np.linspace(5, 8, 3001)
    expected = slopes[np.argmin([objective(slope, 0.0, plain, -plain) for slope in slopes])]
    assert found.slope * size == pytest.approx(expected, abs=1e-3)
    assert found.probabilities(positive).min() > 0.99
    assert found.probabilities(negative).max() < 0.01


def test_rows_of_one_class_have_their_prior():
    score = np.array([3.0, -1.0, 0.5])
    assert fit_sigmoid(score, np.empty(0)).probabilities(score) == pytest.approx([4 / 5] * 3)
    assert fit_sigmoid(np.empty(0), score).probabilities(score) == pytest.approx([1 / 5] * 3)


def test_scores_the_wrong_way_round_say_nothing():
    """A decreasing sigmoid would contradict the labels that the model predicts."""
    score, true = rows(200)
    found = fit_sigmoid(-score[true], -score[~true])
    assert found.slope == 0.0
    n, hits = true.size, int(true.sum())
    mean = (hits * (hits + 1) / (hits + 2) + (n - hits) / (n - hits + 2)) / n
    assert found.probabilities(score) == pytest.approx(np.full(n, mean))


def cross_fitted(score, true):
    """The log-loss by scikit-learn: the sigmoid of one half, judged on the other."""
    half = np.zeros(score.size, int)
    for of in (true, ~true):
        half[np.flatnonzero(of)[np.argsort(score[of], kind="stable")]] = np.arange(of.sum()) % 2
    p = np.empty(score.size)
    for k in (0, 1):
        a, b = _sigmoid_calibration(score[half == k], np.where(true[half == k], 1, -1))
        p[half != k] = 1 / (1 + np.exp(a * score[half != k] + b))
    return log_loss(true, p), p


@pytest.mark.parametrize("n", [40, 3000])
def test_log_loss_is_scikit_learns(n):
    score, true = rows(n, seed=1)
    y = np.where(true, 1, -1)
    expected, p = cross_fitted(score, true)
    found = scores(score * y, y, "log_loss")
    assert found["log_loss"] == pytest.approx(expected, rel=1e-5)
    assert found["log_loss"] == pytest.approx(log_loss(true, cross_fitted_probabilities(score, true)), rel=1e-12)
    assert cross_fitted_probabilities(score, true) == pytest.approx(p, abs=1e-4)
    assert "log_loss" not in scores(score * y, y, "auc")


def test_log_loss_does_not_depend_on_the_order_of_rows():
    score, true = rows(500)
    score = np.round(score, 1)  # with ties
    y = np.where(true, 1, -1)
    order = np.random.default_rng(5).permutation(500)
    one, two = (scores((score * y)[rows], y[rows], "log_loss")["log_loss"] for rows in (np.arange(500), order))
    assert one == two


def test_log_loss_moves_no_further_than_scores_do():
    score, true = rows(500)
    y = np.where(true, 1, -1)
    nudged = score * (1 + 1e-12 * np.random.default_rng(0).standard_normal(500))
    one, two = (scores(each * y, y, "log_loss")["log_loss"] for each in (score, nudged))
    assert one == pytest.approx(two, rel=1e-10)


def test_log_loss_that_is_not_defined():
    assert scores(np.array([1.0, -1.0]), np.array([1, 1]), "log_loss")["log_loss"] is None
    assert scores(np.array([1.0, np.inf]), np.array([1, -1]), "log_loss")["log_loss"] is None


def test_a_good_model_has_a_smaller_loss():
    losses = []
    for apart in (0.0, 1.0, 4.0, 50.0):
        score, true = rows(2000, apart=apart)
        losses.append(cross_fitted_loss(np.sort(score[true]), np.sort(score[~true])))
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(0.61, abs=0.02)  # the entropy of 0.3
    assert losses[-1] < 0.005


@given(hnp.arrays(float, st.integers(2, 60), elements=ANY), st.data())
def test_any_scores_have_a_log_loss(score, data):
    true = np.array(data.draw(st.lists(st.booleans(), min_size=score.size, max_size=score.size)))
    loss = cross_fitted_loss(np.sort(score[true]), np.sort(score[~true]))
    assert 0 <= loss <= 36.1
