"""Odd things that people hand over: they work, or one line says what to do; never a traceback of another library."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import pipeline
import svmsieve
from pipeline.collections.door import dataset_of
from pipeline.errors import DataError
from pipeline.estimators import SieveSVC
from tests.collections.worlds import frame, rows

X, Y = rows(40)
FRAME = frame(X)
WORDS = list("wxyz") * 10
NOT_NUMBERS = {
    "categories": pd.Categorical(WORDS),
    "text": WORDS,
    "moments with a zone": pd.date_range("2026-01-01", periods=40, freq="7h", tz="Europe/Vienna"),
    "periods": pd.period_range("2026-01", periods=40, freq="M"),
    "several types": [1, "a", None, 2.5] * 10,
    "lists": [[1]] * 40,
}


@pytest.mark.parametrize("kind", NOT_NUMBERS)
def test_estimators_name_the_column_that_is_no_number(kind):
    odd = FRAME.assign(odd=NOT_NUMBERS[kind])
    with pytest.raises(DataError, match=r"^X: column 'odd' is .*, not numbers; encode it"):
        SieveSVC().fit(odd, Y)
    model = SieveSVC().fit(FRAME.assign(odd=1.0), Y)
    with pytest.raises(DataError, match=r"^X: column 'odd' is .*, not numbers; encode it"):
        model.predict(odd)


def test_frames_without_columns_or_with_one_twice():
    with pytest.raises(DataError, match="column 'a' stands twice"):
        SieveSVC().fit(FRAME.rename(columns={"b": "a"}), Y)
    with pytest.raises(DataError, match="has no columns"):
        SieveSVC().fit(FRAME[[]], Y)
    with pytest.raises(DataError, match=r"a LazyFrame of polars has no rows yet; give X.collect\(\)"):
        SieveSVC().fit(pl.DataFrame(X, schema=list("abcd")).lazy(), Y)


def test_masked_entries_are_not_taken_for_numbers():
    masked = np.ma.masked_array(X, np.arange(160).reshape(40, 4) == 30)
    with pytest.raises(DataError, match="X, row 7: an entry is masked"):
        SieveSVC().fit(masked, Y)
    assert SieveSVC().fit(np.ma.masked_array(X, False), Y).n_features_in_ == 4


def test_dates_are_not_taken_for_numbers():
    days = np.arange(160).reshape(40, 4).astype("M8[D]")
    with pytest.raises(DataError, match=r"X: is of type datetime64\[D\], not of numbers"):
        SieveSVC().fit(days, Y)
    for odd in (pd.DataFrame(days), FRAME.assign(c=days[:, 0]), FRAME.assign(c=days[:, 0] - days[:, 1])):
        with pytest.raises(DataError, match=r"X: column .* is .*\[.*, not numbers; encode it"):
            SieveSVC().fit(odd, Y)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
@pytest.mark.parametrize(("array", "place", "value"), [("indptr", 3, 900), ("indptr", -1, 10**8), ("indptr", 0, -5)])
def test_sparse_matrices_whose_arrays_do_not_fit_are_refused(kind, array, place, value):
    odd = sp.csr_matrix(X).asformat(kind)
    getattr(odd, array)[place] = value
    model = SieveSVC().fit(X, Y)
    for use in (SieveSVC().fit, dataset_of, lambda x, y: model.predict(x)):
        with pytest.raises(DataError, match=r"'indptr' does not begin with 0, decreases or goes beyond the \d+ stored"):
            use(odd, Y)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("index", [-1, 40])
def test_sparse_matrices_whose_indices_are_beyond_them_are_refused(kind, index):
    odd = sp.csr_matrix(X).asformat(kind)
    odd.indices[-1] = index
    model = SieveSVC().fit(X, Y)
    for use in (SieveSVC().fit, dataset_of, lambda x, y: model.predict(x)):
        with pytest.raises(DataError, match=rf"{'column 3' if kind == 'csc' else 'row'}.* has the index {index}, and"):
            use(odd, Y)


def test_what_is_missing_is_said_as_scikit_learn_says_it():
    for odd in (
        [1.0, None] * 20,
        pd.array([True, None] * 20, dtype="boolean"),
        pd.array([1, None] * 20, dtype="Int64"),
    ):
        with pytest.raises(ValueError, match="contains NaN"):
            SieveSVC().fit(FRAME.assign(odd=odd), Y)


@pytest.mark.parametrize("kind", ["Categorical", "Enum"])
def test_categoricals_of_polars_have_unsigned_codes(kind):
    dtype = pl.Categorical if kind == "Categorical" else pl.Enum(sorted(set(WORDS)))
    words = [None if k == 3 else word for k, word in enumerate(WORDS)]
    table = pl.DataFrame(X, schema=list("abcd")).with_columns(odd=pl.Series(words, dtype=dtype))
    found = dataset_of(table, Y, columns="auto")
    assert found.fingerprint == dataset_of(FRAME.assign(odd=words), Y, columns="auto").fingerprint


def test_as_many_categories_as_their_codes_have_room_for():
    """128 of int8: one more, for what is missing, has none."""
    codes = pa.array([*range(128), *range(128)], pa.int8())
    labels = pa.DictionaryArray.from_arrays(codes, pa.array([f"k{k:03d}" for k in range(128)]))
    x = np.random.default_rng(0).standard_normal((256, 2))
    for given in (x, frame(np.c_[x, x])):
        assert len(dataset_of(given, labels, columns="none" if given is not x else None).classes) == 128


def test_labels_that_are_dates():
    days = [datetime.date(2026, 1, 1 + k % 2) for k in range(40)]
    for given in (X, FRAME):
        with pytest.raises(DataError, match=r"the labels are date32.*; labels must be numbers or text"):
            pipeline.fit_path(given, days, grid=[1.0])


def test_bytes_the_other_way_round():
    swapped = pd.DataFrame(X.astype(">f8"), columns=list("abcd"))
    assert dataset_of(swapped, Y).fingerprint == dataset_of(FRAME, Y).fingerprint
    for labels in (np.array(Y), np.arange(40) % 2):
        assert (
            dataset_of(X, labels.astype(labels.dtype.newbyteorder(">"))).fingerprint
            == dataset_of(X, labels).fingerprint
        )


def test_columns_that_a_model_does_not_need_may_be_anything_at_predict():
    for given in (FRAME, FRAME.assign(odd=WORDS)):
        run = pipeline.fit_path(given, Y, grid=[1.0], columns="auto" if "odd" in given else "none")
        with_more = given.assign(mixed=[1, "a", None, 2.5] * 10, complex=1j)
        assert np.array_equal(svmsieve.predict(run, with_more).score, svmsieve.predict(run, given).score)


def test_text_as_views_is_text():
    """``pyarrow.table`` of a frame of polars has views, also behind the codes of categories."""
    given = pl.DataFrame(X, schema=list("abcd")).with_columns(
        odd=pl.Series(WORDS), kind=pl.Series(WORDS, dtype=pl.Categorical), label=pl.Series(["no", "yes"] * 20)
    )
    views = pa.table(given)
    assert pa.string_view() in views.schema.types
    known = dataset_of(given, columns="auto")
    assert dataset_of(views, columns="auto").fingerprint == known.fingerprint
    assert dataset_of(views.drop_columns("label"), views["label"], columns="auto").fingerprint == known.fingerprint


@pytest.mark.parametrize("bias", ["1", float("nan")])
def test_a_bias_that_is_no_number(bias):
    with pytest.raises(DataError, match=r"^--bias .* is no finite number; choose one near 1, or 0 for none"):
        dataset_of(X, Y, bias=bias)


def test_the_only_class_is_called_by_its_name():
    with pytest.raises(DataError, match="there is only one class, 'a'; an SVM needs two classes"):
        SieveSVC().fit(X, np.array(["a"] * 40))


def test_tables_with_tabs(tmp_path):
    text = "\n".join(["label\ta\tb", *(f"{y}\t{row[0]}\t{row[1]}" for y, row in zip(Y, X.tolist(), strict=True))])
    for name in ("rows.tsv", "rows.csv"):
        (tmp_path / name).write_text(text)
    found = [pipeline.open_dataset(tmp_path / name).fingerprint for name in ("rows.tsv", "rows.csv")]
    assert found[0] == found[1]
