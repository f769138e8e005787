"""Frames with text, dates and gaps: encoded as the same table in a file is, of Dask frames on the workers."""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.collections.door import dataset_of
from pipeline.collections.surveys import merged_surveys
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import ingest, reading_spec
from pipeline.data.tables.learn import Survey
from pipeline.data.tables.survey import TEXT, Question, look
from pipeline.errors import DataError, SieveError
from tests.collections.worlds import frame, rows

N = 240


@pytest.fixture(scope="module")
def table():
    """Rows of every kind of column, with gaps; whether a flight was late depends on most of them."""
    k = np.arange(N)
    wind = np.sin(k * 1.3) * 20
    carrier = np.array(["UA", "AA", "B6", "rare"])[np.where(k % 80 == 7, 3, k % 3)]
    late = wind + 9 * (carrier == "AA") + 4 * np.cos(k) > 3
    return pd.DataFrame(
        {
            "wind": np.where(k % 11 == 0, np.nan, wind),
            "seats": k % 7,
            "carrier": pd.Series(carrier).where(k % 13 != 0, None),
            "day": pd.Timestamp("2013-01-01") + pd.to_timedelta(k * 7, unit="h"),
            "snow": k % 5 == 0,
            "tail": [f"N{number:05d}" for number in k],
            "late": np.where(late, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def ingested(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("file")
    pq.write_table(pa.Table.from_pandas(table), folder / "rows.parquet")
    ingest([str(folder / "rows.parquet")], folder / "shards", reading_spec(label_column="late"))
    return open_shards(folder / "shards")


def lazy(table, npartitions=5):
    return dd.from_pandas(table, npartitions=npartitions)


KINDS = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "pyarrow": pa.Table.from_pandas,
    "dask frame": lazy,
    "categories": lambda table: table.assign(carrier=table["carrier"].astype("category")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_the_file(kind, table, ingested):
    data = dataset_of(KINDS[kind](table), label="late")
    assert data.encoding.digest == ingested.encoding.digest
    assert data.fingerprint == ingested.fingerprint
    assert (data.bias, data.n_features, data.columns) == (1.0, ingested.n_features, None)
    assert {each.column for each in data.encoding.left_out} == {"tail"}


def test_labels_that_are_given_apart(table, ingested):
    features, y = table.drop(columns="late"), table["late"]
    here = dataset_of(features, y)
    there = dataset_of(lazy(features), lazy(y.to_frame())["late"])
    assert here.fingerprint == there.fingerprint == ingested.fingerprint
    assert here.encoding.label == there.encoding.label == "label"
    clash = dataset_of(features.rename(columns={"seats": "label"}), y)
    assert clash.encoding.label == "label_"
    assert "label" in clash.encoding.inputs


@pytest.mark.parametrize("npartitions", [1, 2, 9, 40])
def test_any_cut_learns_the_same(npartitions, table, ingested):
    data = dataset_of(lazy(table, npartitions), label="late")
    assert data.encoding.digest == ingested.encoding.digest
    assert data.fingerprint == ingested.fingerprint


def test_models_are_scored_by_name(table, ingested):
    run = pipeline.fit_path(lazy(table), label="late", grid=[1.0])
    new = table.drop(columns=["late", "tail"])[["snow", "day", "carrier", "seats", "wind"]].copy()
    new.loc[3, "carrier"] = "never seen"
    labels = pipeline.lazy_labels(run.steps[0], lazy(new))
    assert np.mean(labels.compute() == table["late"].to_numpy()) > 0.85
    same = pipeline.lazy_scores(run.steps[0], lazy(new, 2)).compute()
    assert np.array_equal(same, pipeline.lazy_scores(run.steps[0], lazy(new)).compute())
    with pytest.raises(SieveError, match="no column wind, which the model needs"):
        pipeline.lazy_scores(run.steps[0], lazy(new.drop(columns="wind")))


def test_validation_is_encoded_as_the_rows_were(table):
    run = pipeline.fit_path(lazy(table), label="late", grid=[1.0], validation=table[::-1].reset_index(drop=True))
    assert run.best.scores["accuracy"] > 0.85
    apart = table.drop(columns="late"), table["late"]
    again = pipeline.fit_path(*apart, grid=[1.0], validation=apart)
    assert again.best.scores["accuracy"] == run.best.scores["accuracy"]


def test_tune_takes_a_frame(table):
    assert pipeline.tune(table, label="late", cv=3).header.cv_c


def test_a_bad_cell_is_named(table):
    broken = table.assign(wind=table["wind"].where(table.index != 100, np.inf))
    with pytest.raises(DataError, match="X, row 100: column 'wind' is infinite here"):
        dataset_of(broken, label="late")
    with pytest.raises(DataError, match="the Dask frame, partition 2, row 4: column 'wind' is infinite here"):
        dataset_of(lazy(broken), label="late")
    gap = table.assign(late=table["late"].where(table.index != 100, None))
    with pytest.raises(DataError, match="the Dask frame, partition 2, row 4: the label is missing"):
        dataset_of(lazy(gap), label="late")
    with pytest.raises(DataError, match="no column makes a feature"):
        dataset_of(lazy(table[["tail", "late"]]), label="late")
    with pytest.raises(DataError, match="no rows in any partition"):
        dataset_of(lazy(table)[lazy(table)["seats"] > 99], label="late")


def test_surveys_that_are_merged_are_those_of_all_rows():
    """What was forgotten, what occurred twice and what is long is known after a merge, too."""
    question = {"a": Question(("a",), TEXT, numbers=True, dates=True, values=True)}
    parts = [["x", None, "y"], ["y"], [], ["z" * 300, "2013-01-01"]]

    def survey(batches):
        found = Survey(question)
        for each in batches:
            found.add(look(pa.table({"a": pa.array(each, pa.string())}), question, None))
        return found.found

    whole = survey(parts)
    merged = merged_surveys((None, question), [survey([part]) for part in parts])
    assert merged == whole
    assert (merged["a"].values.twice, merged["a"].values.long, merged["a"].values.all) == (True, True, True)
    half = survey([["x"]])
    half["a"].values.forget()
    assert not merged_surveys((None, question), [survey([["y"]]), half])["a"].values.all


def test_numbers_alone_are_features_as_they_are_unless_asked_otherwise():
    x, y = rows()
    for table in (frame(x, y), lazy(frame(x, y), 3)):
        plain, encoded = dataset_of(table), dataset_of(table, columns="auto")
        assert (plain.fingerprint, plain.columns, plain.bias) == (dataset_of(x, y).fingerprint, tuple("abcd"), 0.0)
        assert (encoded.columns, encoded.bias) == (None, 1.0)
        assert encoded.encoding.inputs == ("a", "b", "c", "d")
