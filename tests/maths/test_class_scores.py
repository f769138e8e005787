"""Scores of K classes are scikit-learn's, and those of two classes where there are two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, log_loss, roc_auc_score

from pipeline.maths.class_scores import class_scores
from pipeline.maths.sigmoid import cross_fitted_probabilities


def rows(n, k, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, k, n)
    codes[:k] = np.arange(k)
    score = rng.standard_normal((n, k)) + 1.5 * (codes[:, None] == np.arange(k))
    return (np.round(score) if ties else score), codes


@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(10, 80), st.booleans())
def test_scores_are_those_of_scikit_learn(seed, k, n, ties):
    score, codes = rows(n, k, seed, ties)
    said = np.argmax(score, axis=1)  # of equals the first
    found = class_scores(score.T, codes)
    areas = [roc_auc_score(codes == c, score[:, c]) for c in range(k)]
    assert found == pytest.approx(
        {
            "accuracy": accuracy_score(codes, said),
            "balanced_accuracy": balanced_accuracy_score(codes, said),
            "auc": np.mean(areas),
            "f1": f1_score(codes, said, average="macro"),
        }
    )


def test_log_loss_of_normalised_sigmoids():
    score, codes = rows(400, 4)
    p = np.stack([cross_fitted_probabilities(score[:, k], codes == k) for k in range(4)], axis=1)
    expected = log_loss(codes, p / p.sum(axis=1, keepdims=True))
    assert class_scores(score.T, codes, "log_loss")["log_loss"] == pytest.approx(expected)
    assert expected < 1.0 < np.log(4)
    order = np.random.default_rng(0).permutation(400)
    again = class_scores(score[order].T, codes[order], "log_loss")["log_loss"]
    assert again == pytest.approx(expected, rel=1e-12)


def test_columns_come_one_at_a_time():
    """A generator is enough: nothing of a column is needed when the next one comes."""
    score, codes = rows(50, 5)

    def columns():
        for k in range(5):
            column = score[:, k].copy()
            yield column
            column[:] = np.nan

    assert class_scores(columns(), codes, "log_loss") == class_scores(score.T, codes, "log_loss")


def test_a_class_without_rows():
    score, codes = rows(60, 3)
    present = codes != 1
    found = class_scores(score[present].T, codes[present], "log_loss")
    said, true = np.argmax(score[present], axis=1), codes[present]
    assert found["balanced_accuracy"] == pytest.approx(np.mean([np.mean(said[true == k] == k) for k in (0, 2)]))
    areas = [roc_auc_score(true == k, score[present][:, k]) for k in (0, 2)]
    assert found["auc"] == pytest.approx(np.mean(areas))
    assert found["f1"] == pytest.approx(f1_score(true, said, average="macro"))
    assert found["log_loss"] is not None
    alone = class_scores(score[codes == 1].T, codes[codes == 1], "log_loss")
    assert alone["accuracy"] is not None
    assert [alone[name] for name in ("balanced_accuracy", "auc", "log_loss")] == [None] * 3
