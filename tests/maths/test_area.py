"""AUC of scores that stream by: exact while they are kept, within its own bound beyond; memory does not grow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pipeline.maths.area import Area
from pipeline.maths.class_scores import class_scores
from pipeline.maths.running_scores import MOST_AREAS, RunningClassScores, RunningScores
from pipeline.maths.score import scores


def area(score: np.ndarray, true: np.ndarray, held: int, part: int = 7) -> tuple[float | None, float]:
    found = Area(held)
    for first in range(0, score.size, part):
        found.add(score[first : first + part], true[first : first + part])
    return found.found()


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.random(n) < 0.3
    return rng.standard_normal(n) + true, true


SCORES = st.floats(-1e300, 1e300) | st.sampled_from([0.0, -0.0, 1.0, 1.0000000000000002, 5e-324, -1.0])


@settings(max_examples=40)
@given(st.lists(st.tuples(SCORES, st.booleans()), min_size=1, max_size=60), st.integers(1, 70), st.integers(1, 70))
def test_kept_or_in_bins_the_auc_is_within_its_bound(items, held, part):
    score, true = np.array([s for s, _ in items]), np.array([t for _, t in items])
    found, error = area(score, true, held, part)
    if true.all() or not true.any():
        assert (found, error) == (None, 0.0)
        return
    expected = roc_auc_score(true, score)
    assert abs(found - expected) <= error + 1e-12
    assert error == 0.0 or held < score.size


@pytest.mark.parametrize("order", ["as they come", "the small ones first", "negatives first"])
def test_the_bound_is_small_in_any_order(order):
    score, true = rows(200_000)
    if order == "the small ones first":
        at = np.argsort(score)
        score, true = score[at], true[at]
    if order == "negatives first":
        at = np.argsort(true, kind="stable")
        score, true = score[at], true[at]
    exact, none = area(score, true, 1 << 18, 10_000)
    found, error = area(score, true, 1 << 16, 10_000)
    assert none == 0.0
    assert exact == pytest.approx(roc_auc_score(true, score), abs=1e-12)
    assert 0 < error < (2e-4 if order == "as they come" else 0.1)
    assert abs(found - exact) <= error


def test_equal_scores_are_ties_and_no_doubt():
    """As many rows have: one-hot features, few of them."""
    number = np.arange(5_000)
    score, true = number**2 % 11 / 7, number % 3 == 0
    found, error = area(score, true, 4_000)
    assert found == pytest.approx(roc_auc_score(true, score), abs=1e-12)
    assert error == 0.0


def test_rows_without_labels_need_no_memory():
    found = RunningScores()
    for _ in range(3):
        found.add(np.ones(1000), np.zeros(1000, np.int8))
    assert found.area._kept.size == 0
    assert found.found() == ({}, 0.0)


def test_memory_does_not_grow_with_the_rows():
    found = Area(1 << 12)
    score, true = rows(1 << 13)
    found.add(score, true)
    counts = found._bins.counts.nbytes
    for _ in range(5):
        found.add(score, true)
    assert found._bins.counts.nbytes == counts < 1 << 18
    assert found._kept.size == 0
    assert (found.positives, found.negatives) == (6 * true.sum(), 6 * (~true).sum())


def test_the_scores_of_two_classes_are_those_of_all_rows_at_once():
    score, true = rows(999)
    sign = np.where(true, 1, -1)
    found, some = RunningScores(), np.arange(999) % 5 > 0
    for first in range(0, 999, 100):
        part = slice(first, first + 100)
        found.add(score[part], np.where(some, sign, 0)[part])
    expected = scores((score * sign)[some], sign[some])
    assert found.found()[0] == pytest.approx(expected, abs=1e-14)
    assert found.labelled == some.sum()


def test_the_scores_of_several_classes_are_those_of_all_rows_at_once():
    rng = np.random.default_rng(0)
    s, codes = rng.standard_normal((500, 4)), rng.integers(0, 4, 500).astype(np.int32)
    s[np.arange(500), codes] += 1
    codes[codes == 2] = 0  # a class without rows
    said, known = np.argmax(s, axis=1), np.arange(500) % 7 > 0
    found = RunningClassScores(4)
    for first in range(0, 500, 64):
        part = slice(first, first + 64)
        found.add(s[part], said[part], np.where(known, codes, -1)[part])
    expected = class_scores(s[known].T, codes[known])
    assert found.found()[0] == pytest.approx(expected, abs=1e-12)
    assert RunningClassScores(MOST_AREAS).areas
    assert not RunningClassScores(MOST_AREAS + 1).areas
