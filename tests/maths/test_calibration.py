"""Probabilities from scores: isotonic regression as scikit-learn's, what run.json may say, classes that sum to 1."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from sklearn.svm import LinearSVC

from pipeline.errors import DataError, SpecError
from pipeline.maths.calibration import KINDS, Calibration, class_probabilities, fit_calibration
from pipeline.maths.isotonic import MOST_POINTS, fit_steps

ANY = st.floats(allow_nan=False, allow_infinity=False)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1, -1)
    return rng.standard_normal(n) + y, y


@given(st.integers(0, 2**32), st.integers(1, 80), st.booleans())
def test_isotonic_is_scikit_learns(seed, n, ties):
    score, y = rows(n, seed)
    score = np.round(score) if ties else score
    found = fit_calibration(score, y, "isotonic")
    other = IsotonicRegression(out_of_bounds="clip").fit(score, y > 0)
    at = np.concatenate([score, np.linspace(-6, 6, 50)])
    assert found.probabilities(at) == pytest.approx(other.predict(at), abs=1e-12)


def test_a_large_isotonic_fit_is_kept_in_few_points():
    ladder = np.repeat(np.arange(1200), 1200)  # 1,200 blocks, one of each mean
    hits = np.concatenate([np.arange(1200) < k for k in range(1200)])
    found = fit_steps(ladder.astype(float), hits)
    assert found.at.size == MOST_POINTS
    assert (found.at[0], found.at[-1]) == (0.0, 1199.0)
    assert np.abs(found.probabilities(np.arange(1200.0)) - np.arange(1200) / 1200).max() < 1e-12


@given(st.lists(st.tuples(ANY, st.booleans()), max_size=50), st.sampled_from(KINDS), st.lists(ANY, min_size=2))
def test_probabilities_never_fall(pairs, kind, at):
    score, true = np.array([s for s, _ in pairs], float), np.array([t for _, t in pairs], bool)
    found = fit_calibration(score, np.where(true, 1, -1), kind)
    p = found.probabilities(np.sort(np.concatenate([score, at])))
    assert ((p >= 0) & (p <= 1)).all()
    assert (np.diff(p) >= (0 if kind == "isotonic" else -1e-15)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_as_good_as_scikit_learns(kind):
    """Fitted on the same scores as ``CalibratedClassifierCV``, judged on others."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3000, 5))
    y = np.where(x @ [1, -1, 0.5, 0, 0] + rng.standard_normal(3000) > 0.5, 1, -1)
    model = LinearSVC(loss="hinge", C=0.01, max_iter=10_000).fit(x[:1000], y[:1000])
    other = CalibratedClassifierCV(FrozenEstimator(model), method=kind, ensemble=False).fit(x[1000:2000], y[1000:2000])
    score = model.decision_function(x)
    found = fit_calibration(score[1000:2000], y[1000:2000], kind)
    ours, theirs = found.probabilities(score[2000:]), other.predict_proba(x[2000:])[:, 1]
    assert ours == pytest.approx(theirs, abs=2e-3)
    briers = [brier_score_loss(y[2000:] > 0, p) for p in (ours, theirs)]
    assert briers[0] == pytest.approx(briers[1], abs=1e-4)
    assert briers[0] < 0.16 < brier_score_loss(y[2000:] > 0, np.full(1000, np.mean(y > 0)))


@pytest.mark.parametrize("kind", KINDS)
def test_it_comes_back_from_json(kind):
    score, y = rows(200)
    found = fit_calibration(score, y, kind, c=0.25)
    again = Calibration.from_json(json.loads(json.dumps(found.to_json())))
    assert again.c == 0.25
    np.testing.assert_array_equal(again.probabilities(score), found.probabilities(score))


SIGMOID = {"kind": "sigmoid", "c": None, "slope": 1.0, "intercept": 0}
ISOTONIC = {"kind": "isotonic", "c": 0.5, "scores": [0.0, 1.0], "probabilities": [0.2, 0.2]}
WRONG = {
    "no object": [1],
    "no kind": {"slope": 1.0},
    "another kind": SIGMOID | {"kind": "linear"},
    "a kind that is a list": SIGMOID | {"kind": []},
    "a key too many": SIGMOID | {"scores": []},
    "a key too few": {"kind": "sigmoid", "c": None, "slope": 1.0},
    "a slope below 0": SIGMOID | {"slope": -1.0},
    "a slope that is text": SIGMOID | {"slope": "1"},
    "a slope that is true": SIGMOID | {"slope": True},
    "a slope of thousands of digits": SIGMOID | {"slope": 10**400},
    "an intercept of nan": SIGMOID | {"intercept": float("nan")},
    "a C of 0": SIGMOID | {"c": 0},
    "a C that is text": SIGMOID | {"c": "0.1"},
    "scores that do not ascend": ISOTONIC | {"scores": [1.0, 1.0]},
    "probabilities that fall": ISOTONIC | {"probabilities": [0.5, 0.4]},
    "probabilities above 1": ISOTONIC | {"probabilities": [0.5, 1.1]},
    "probabilities below 0": ISOTONIC | {"probabilities": [-0.1, 0.4]},
    "one probability": ISOTONIC | {"probabilities": [0.5]},
    "no points": ISOTONIC | {"scores": [], "probabilities": []},
    "too many points": ISOTONIC | {"scores": list(range(1001)), "probabilities": [0.5] * 1001},
    "a score that is null": ISOTONIC | {"scores": [None, 1.0]},
    "scores that are text": ISOTONIC | {"scores": "01"},
}


@pytest.mark.parametrize("item", WRONG.values(), ids=WRONG)
def test_what_run_json_must_not_say(item):
    for good in (SIGMOID, ISOTONIC):
        Calibration.from_json(good)
    with pytest.raises(ValueError, match=r"calibration|sigmoid"):
        Calibration.from_json(item)


def test_what_cannot_be_fitted():
    with pytest.raises(SpecError, match="unknown calibration 'beta'; there are sigmoid, isotonic"):
        fit_calibration(np.zeros(2), np.array([1, -1]), "beta")
    with pytest.raises(DataError, match="scale the features"):
        fit_calibration(np.array([np.inf, 0.0]), np.array([1, -1]))


def test_probabilities_of_classes_sum_to_1():
    score = np.random.default_rng(0).standard_normal((50, 3))
    codes = np.argmax(score, axis=1)
    calibrations = [fit_calibration(score[:, k], np.where(codes == k, 1, -1)) for k in range(3)]
    p = class_probabilities(calibrations, score)
    assert p.sum(axis=1) == pytest.approx(np.ones(50))
    each = np.stack([c.probabilities(score[:, k]) for k, c in enumerate(calibrations)], axis=1)
    assert p == pytest.approx(each / each.sum(axis=1, keepdims=True))
    never = Calibration.from_json(ISOTONIC | {"probabilities": [0.0, 0.0]})
    assert class_probabilities([never] * 4, np.zeros((2, 4))) == pytest.approx(np.full((2, 4), 0.25))
