"""The public package on data of any kind: what goes in, and what comes back."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import svmsieve
from pipeline.errors import SieveError
from tests.collections.worlds import frame, rows, unknown

X, Y = rows(120)
ARRAY, LABELS = da.from_array(X, chunks=(50, 4)), da.from_array(Y, chunks=50)


@pytest.fixture(scope="module")
def run():
    return svmsieve.tune(ARRAY, LABELS, bias=1.0, cv=3, grid=[0.1, 1.0])


@pytest.mark.parametrize("x", [X, sp.csr_array(X), X.tolist()])
def test_what_is_in_memory_is_predicted_there(run, x):
    found = svmsieve.predict(run, x, probability=True)
    assert found.label.tolist() == np.where(found.score > 0, "yes", "no").tolist()
    assert found.probability.shape == (120, 2)
    assert np.mean(found.label == Y) > 0.85


def test_dask_is_predicted_lazily(run):
    found = svmsieve.predict(run, unknown(ARRAY), probability=True)
    here = svmsieve.predict(run, X, probability=True)
    assert np.isnan(found.score.chunks[0]).all()
    assert np.array_equal(found.score.compute(), here.score)
    assert np.array_equal(found.label.compute(), here.label)
    assert np.array_equal(found.probability.compute(), here.probability)
    assert found.probability.chunks[1] == (2,)


def test_frames_come_in_any_order_of_columns():
    table = frame(X, Y)
    model = svmsieve.fit_path(table, grid=[1.0]).steps[0]
    back = table[["d", "c", "b", "a"]]
    scores = svmsieve.predict(model, back).score
    assert np.array_equal(scores, svmsieve.predict(model, pl.from_pandas(back)).score)
    assert np.array_equal(scores, svmsieve.predict(model, dd.from_pandas(back, npartitions=2)).score.compute())
    with pytest.raises(SieveError, match="no column a, which the model needs"):
        svmsieve.predict(model, back.drop(columns="a"))


def test_a_run_on_dask_is_verified_with_the_arrays(tmp_path):
    svmsieve.fit_path(ARRAY, LABELS, bias=1.0, grid=[0.1, 1.0], out=tmp_path / "run")
    for x, y in ((X, Y), (ARRAY, LABELS)):
        assert all(finding.holds for finding in svmsieve.verify(tmp_path / "run", x, y))
    with pytest.raises(SieveError):
        svmsieve.verify(tmp_path / "run", X[:-1], Y[:-1])


def test_a_run_on_a_table_is_verified_with_the_frame(tmp_path):
    table = frame(X, Y).assign(colour=np.array(["red", "blue"])[np.arange(120) % 2])
    svmsieve.fit_path(dd.from_pandas(table, npartitions=3), grid=[0.1], out=tmp_path / "run")
    assert all(finding.holds for finding in svmsieve.verify(tmp_path / "run", table))


def test_screening_takes_dask(run):
    here = svmsieve.screen(X, run.steps[0], 2.0, Y)
    there = svmsieve.screen(ARRAY, run.steps[0], 2.0, LABELS)
    assert np.array_equal(here.verdicts, there.verdicts)


def test_data_are_opened_once_and_used_again(tmp_path):
    data = svmsieve.open_dataset(ARRAY, LABELS, bias=1.0, shards=tmp_path / "shards")
    again = svmsieve.open_dataset(tmp_path / "shards")
    assert data.fingerprint == again.fingerprint == svmsieve.open_dataset(X, Y, bias=1.0).fingerprint


def test_labels_come_back_as_they_went_in():
    for y in (np.arange(120) % 3, np.where(Y == "yes", 7, -2)):
        step = svmsieve.fit_path(ARRAY, y, grid=[1.0]).steps[0]
        assert svmsieve.predict(step, ARRAY).label.dtype == np.int64
        assert set(svmsieve.predict(step, X).label) <= set(y)


def test_no_rows_and_other_widths(run):
    with pytest.raises(SieveError, match=r"the array has 3 features, the model of .* 4"):
        svmsieve.predict(run, X[:, :3])
    with pytest.raises(SieveError, match="no rows to score"):
        svmsieve.predict(run, X[:0])
    with pytest.raises(SieveError, match="has named columns, but the run does not say"):
        svmsieve.predict(run, pd.DataFrame(X, columns=list("abcd")))
