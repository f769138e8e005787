"""Estimators on Dask collections: fitted on shards that the workers wrote, and predictions that stay lazy."""

from __future__ import annotations

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from pipeline.errors import SieveError
from pipeline.estimators import SieveSVC, SieveSVCCV
from tests.collections.worlds import NAMES, bag, frame, rows, unknown

X, Y = rows(120)
ARRAY, LABELS = da.from_array(X, chunks=(50, 4)), da.from_array(Y, chunks=50)
CLASSES = {
    "text": Y,
    "text of numbers": np.where(Y == "yes", "02", "01"),
    "integers": np.where(Y == "yes", 7, -2).astype(np.int16),
    "floats": np.where(Y == "yes", 1.0, 0.0),
    "booleans": Y == "yes",
    "several": np.digitize(X[:, 0], [-0.3, 0.3]),
}


@pytest.mark.parametrize("name", CLASSES)
def test_the_model_is_that_of_arrays(name):
    y = CLASSES[name]
    here = SieveSVC(C=0.5, tol=1e-9).fit(X, y)
    there = SieveSVC(C=0.5, tol=1e-9).fit(ARRAY.map_blocks(sp.csr_array), da.from_array(y, chunks=50))
    assert there.classes_.tolist() == here.classes_.tolist()
    assert there.classes_.dtype == here.classes_.dtype
    assert (there.n_features_in_, hasattr(there, "feature_names_in_")) == (4, False)
    assert np.allclose(there.coef_, here.coef_, atol=1e-4)
    labels = there.predict(ARRAY)
    assert (labels.chunks, labels.dtype) == (((50, 50, 20),), y.dtype)
    assert np.array_equal(labels.compute(), there.predict(X))
    scores = there.decision_function(unknown(ARRAY))
    assert np.isnan(scores.chunks[0]).all()
    assert np.allclose(scores.compute(), there.decision_function(X), rtol=0, atol=1e-12)


def test_frames_have_names():
    table = dd.from_pandas(frame(X), npartitions=3)
    model = SieveSVC().fit(table, dd.from_pandas(pd.Series(Y), npartitions=3))
    assert model.feature_names_in_.tolist() == NAMES
    assert np.array_equal(model.predict(table).compute(), model.predict(frame(X)))
    with pytest.raises(SieveError, match="X has 3 features, but SieveSVC is expecting 4"):
        model.predict(table[["a", "b", "c"]])


def test_probabilities_weights_and_pickles():
    weights = 1.0 + np.arange(120) % 2
    settings = {"C": 0.5, "tol": 1e-8, "probability": True, "class_weight": {"yes": 2.0, "no": 1.0}}
    here = SieveSVC(**settings).fit(X, Y, sample_weight=weights)
    there = SieveSVC(**settings).fit(ARRAY, LABELS, sample_weight=da.from_array(weights, chunks=50))
    assert np.allclose(there.coef_, here.coef_, atol=1e-3)
    copied = pickle.loads(pickle.dumps(there))  # noqa: S301 - our own
    found = copied.predict_proba(ARRAY)
    assert (found.shape, found.chunks[1]) == ((120, 2), (2,))
    assert np.allclose(found.compute(), there.predict_proba(X), rtol=0, atol=1e-12)
    assert there.support_.size == there.dual_coef_.shape[1] > 0


@pytest.mark.parametrize("kind", ["array", "csr", "frame", "unknown"])
def test_rows_of_weight_0_are_not_there(kind):
    """Nor is a class that only such rows have; rows keep their numbers."""
    weights = 1.0 + np.arange(120) % 3
    weights[[0, 7, 8, 49, 50, 119]] = weights[60:100] = 0.0
    y = np.where(np.arange(120) == 7, "gone", Y)
    given = {"array": ARRAY, "csr": ARRAY.map_blocks(sp.csr_array), "unknown": unknown(ARRAY)}
    given["frame"] = dd.from_pandas(frame(X), npartitions=3)
    labels, costs = da.from_array(y, chunks=50), da.from_array(weights, chunks=50)
    if kind == "frame":
        labels, costs = (dd.from_pandas(pd.Series(each), npartitions=3) for each in (y, weights))
    there = SieveSVC(C=0.5, tol=1e-9).fit(given[kind], labels, sample_weight=costs)
    here = SieveSVC(C=0.5, tol=1e-9).fit(X, y, sample_weight=weights)
    assert there.classes_.tolist() == here.classes_.tolist() == ["no", "yes"]
    assert np.allclose(there.coef_, here.coef_, atol=1e-4)
    assert np.array_equal(there.support_, here.support_)
    assert (weights[there.support_] > 0).all()
    with pytest.raises(SieveError, match="no rows of weight above 0 in any partition"):
        SieveSVC().fit(ARRAY, LABELS, sample_weight=da.zeros(120, chunks=50))


def test_the_search_for_c():
    there = SieveSVCCV(Cs=[0.01, 0.1, 1.0], cv=3).fit(ARRAY, LABELS)
    here = SieveSVCCV(Cs=[0.01, 0.1, 1.0], cv=3).fit(X, Y)
    assert there.C_ == here.C_
    assert np.allclose(there.scores_, here.scores_)
    with pytest.raises(SieveError, match="a number of folds"):
        SieveSVCCV(cv=[(np.arange(60), np.arange(60, 120))]).fit(ARRAY, LABELS)


def test_what_cannot_be_is_one_line():
    for x, y, expected in (
        (ARRAY, None, "requires y to be passed"),
        (bag(X, Y), LABELS, "a bag has no features before it is hashed"),
        (ARRAY.rechunk((50, 2)), LABELS, r"x.rechunk\(\{1: -1\}\)"),
        (ARRAY, np.where(np.arange(120) % 2, "1", "1.0"), "a single class"),
        (ARRAY, np.array(["1", "1.0", "2"])[np.arange(120) % 3], "labels '1' and '1.0' are the same class"),
    ):
        with pytest.raises(SieveError, match=expected):
            SieveSVC().fit(x, y)
    with pytest.raises(SieveError, match=r"pass X.rechunk\(\{1: -1\}\)"):
        SieveSVC().fit(X, Y).predict(ARRAY.rechunk((50, 2)))
