"""Which C: the best mean score, or the smallest C within one standard error of it; a log-loss is better below."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import sem

from pipeline.maths.score import best, mean_scores, one_se, standard_errors


def folds(*values, name="auc"):
    """Scores of folds, each with one value a step."""
    return [[{name: value} for value in fold] for fold in values]


def test_standard_errors_are_scipys():
    values = np.random.default_rng(0).random((5, 7))
    found = standard_errors(folds(*values.tolist()))
    assert [step["auc"] for step in found] == pytest.approx(sem(values, axis=0))


def test_folds_without_the_score_do_not_count():
    found = folds([0.1, 0.2], [None, 0.9], [0.3, 0.6])
    assert [step["auc"] for step in standard_errors(found)] == pytest.approx([0.1, 0.2])
    assert standard_errors(found[:2]) == [{"auc": None}] * 2
    assert mean_scores(found[1:2]) == [{"auc": None}] * 2


def test_the_best_log_loss_is_the_smallest():
    assert best([{"log_loss": value} for value in (0.5, 0.3, 0.3, 0.4)], "log_loss") == 1
    assert best([{"auc": 0.5}, {"auc": 0.7}], "log_loss") is None


@pytest.mark.parametrize("name", ["auc", "log_loss"])
def test_the_smallest_c_within_one_standard_error(name):
    sign = -1 if name == "log_loss" else 1
    means = [{name: sign * value} for value in (0.60, 0.78, 0.79, 0.80, 0.80, 0.70)]
    cs = [0.1, 1.0, 2.0, 4.0, 8.0, 16.0]
    errors = [{name: error} for error in (0.5, 0.5, 0.5, 0.015, 0.5, 0.5)]  # the best's counts
    assert one_se(cs, means, errors, name) == 2
    backwards = one_se(cs[::-1], means[::-1], [{name: 0.015}] * 6, name)
    assert backwards == 3  # C = 2, in any order
    assert one_se(cs, means, [{name: None}] * 6, name) == 3
    assert one_se(cs, [{name: None}] * 6, errors, name) is None
