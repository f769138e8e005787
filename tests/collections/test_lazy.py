"""Lazy predictions: nothing is computed unasked, chunks are those of the rows, the model travels once."""

from __future__ import annotations

import pickle
from dataclasses import replace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction import FeatureHasher

import pipeline
from pipeline.engine.engine import Engine
from pipeline.errors import SieveError
from pipeline.scoring.models import any_model_of
from tests.collections.worlds import bag, frame, rows, unknown

X, Y = rows()
ARRAY, LABELS = da.from_array(X, chunks=(20, 4)), da.from_array(Y, chunks=20)
SETTINGS = {"grid": [1.0], "bias": 1.0, "scheduler": "inline"}


@pytest.fixture(scope="module")
def step():
    return pipeline.fit_path(ARRAY, LABELS, **SETTINGS).steps[0]


@pytest.fixture(scope="module")
def named():
    return pipeline.fit_path(frame(X, Y), columns="none", **SETTINGS).steps[0]


def test_scores_are_those_of_predict(step):
    scores = pipeline.lazy_scores(step, ARRAY)
    labels = pipeline.lazy_labels(step, ARRAY)
    assert (scores.chunks, scores.dtype, scores.ndim) == (((20, 20, 20),), np.float64, 1)
    assert (labels.chunks, labels.dtype, type(labels._meta)) == (((20, 20, 20),), np.dtype("<U3"), np.ndarray)
    data = pipeline.dataset_of(X, Y, bias=1.0)
    with Engine("inline") as engine:
        parts = list(pipeline.predict(engine, step, data))
    assert np.array_equal(scores.compute(), np.concatenate([part.score for part in parts]))
    assert np.array_equal(labels.compute(), np.concatenate([part.label for part in parts]))
    assert np.mean(labels.compute() == Y) > 0.8


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csr_array, np.asfortranarray])
def test_blocks_of_any_form(step, form):
    found = pipeline.lazy_scores(step, ARRAY.map_blocks(form)).compute()
    assert np.array_equal(found, pipeline.lazy_scores(step, ARRAY).compute())


def test_unknown_sizes_stay_unknown(step):
    scores = pipeline.lazy_scores(step, unknown(ARRAY))
    assert np.isnan(scores.chunks[0]).all()
    assert len(scores.chunks[0]) == 3
    assert np.array_equal(scores.compute(), pipeline.lazy_scores(step, ARRAY).compute())
    none = ARRAY[da.from_array(np.arange(60) < 15, chunks=20)]
    assert pipeline.lazy_labels(step, none).compute().shape == (15,)


def test_frames_are_matched_by_name(named):
    lazy = dd.from_pandas(frame(X, Y)[["d", "label", "b", "a", "c"]].assign(more=1.0), npartitions=4)
    scores = pipeline.lazy_scores(named, lazy)
    assert np.isnan(scores.chunks[0]).all()
    assert np.array_equal(scores.compute(), pipeline.lazy_scores(named, ARRAY).compute())
    with pytest.raises(SieveError, match="no column b, which the model needs"):
        pipeline.lazy_scores(named, lazy.drop(columns="b"))


def test_several_classes_have_a_column_each():
    y = np.digitize(X[:, 0], [-0.3, 0.3])
    step = pipeline.fit_path(ARRAY, y, **SETTINGS).steps[0]
    scores, labels = pipeline.lazy_scores(step, ARRAY), pipeline.lazy_labels(step, ARRAY)
    assert (scores.chunks, labels.chunks) == (((20, 20, 20), (3,)), ((20, 20, 20),))
    assert labels.dtype == np.int64
    assert np.array_equal(labels.compute(), scores.compute().argmax(axis=1))
    empty = pipeline.lazy_scores(step, ARRAY[da.from_array(np.arange(60) < 15, chunks=20)])
    assert empty.compute().shape == (15, 3)


def test_a_kernels_model_and_a_bag():
    hasher = FeatureHasher(n_features=16)
    run = pipeline.fit_path(bag(X, Y), hasher=hasher, kernel="rbf", **SETTINGS)
    unlabelled = bag(X, Y).map(lambda row: {key: value for key, value in row.items() if key != "label"})
    labels = pipeline.lazy_labels(run.steps[0], unlabelled, hasher=hasher)
    assert np.mean(labels.compute() == Y) > 0.9
    with pytest.raises(SieveError, match=r"the Dask bag has 8 features, the model of .* 16"):
        pipeline.lazy_labels(run.steps[0], unlabelled, hasher=FeatureHasher(n_features=8))


def test_nothing_is_computed_before_it_is_asked_for(step):
    def never(block):
        raise AssertionError

    lazy = pipeline.lazy_labels(step, ARRAY.map_blocks(never, dtype=float, meta=np.empty((0, 0))))
    assert lazy.shape == (60,)


def test_the_model_stands_in_the_graph_once():
    """A wide model, many partitions: all tasks together are hardly larger than w."""
    x = da.zeros((50, 100_000), chunks=(1, 100_000)).map_blocks(sp.csr_array)
    y = np.arange(50) % 2
    w = np.zeros((50, 100_000))
    w[np.arange(50), np.arange(50)] = 2.0 * y - 1
    step = pipeline.fit_path(sp.csr_array(w), y, grid=[1.0]).steps[0]
    (scores,) = dask.optimize(pipeline.lazy_scores(step, x))
    size = len(pickle.dumps(dict(scores.__dask_graph__())))
    assert step.w.nbytes == 800_000
    assert size < 2 * step.w.nbytes
    assert np.array_equal(scores.compute(), np.zeros(50))


def test_what_does_not_fit_is_said_at_once(step):
    for x, expected in (
        (ARRAY[:, :3], "the Dask array has 3 features, the model of .* 4; give the features"),
        (ARRAY.rechunk((20, 2)), r"pass x.rechunk\(\{1: -1\}\)"),
        (X, "lazy predictions are for Dask collections, and these data are numpy; use predict"),
        (dd.from_pandas(frame(X), npartitions=2), "has named columns, but the run does not say which"),
    ):
        with pytest.raises(SieveError, match=expected):
            pipeline.lazy_scores(step, x)


def test_a_bad_row_is_named_when_it_is_computed(step):
    x = X.copy()
    x[45, 1] = np.nan
    with pytest.raises(SieveError, match="partition 2, row 5: the value of index 1 is nan"):
        pipeline.lazy_scores(step, da.from_array(x, chunks=(20, 4))).compute()
    x[45, 1] = 1e149
    model = any_model_of(step)
    large = replace(model, w=model.w * 1e200)
    with pytest.raises(SieveError, match=r"partition 2, row 5: its score .* is beyond float64's range"):
        pipeline.lazy_scores(large, da.from_array(x, chunks=(20, 4))).compute()
