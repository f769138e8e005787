"""What cannot be trained on is one line that says which part, which row and what to do; nothing is left on disk."""

from __future__ import annotations

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction import FeatureHasher

from pipeline.collections.door import dataset_of
from pipeline.collections.kinds import is_dask, is_frame
from pipeline.errors import DataError, EngineError, SieveError
from tests.collections.worlds import bag, frame, rows, unknown

X, Y = rows()
ARRAY, LABELS = da.from_array(X, chunks=(20, 4)), da.from_array(Y, chunks=20)
HASHER = FeatureHasher(n_features=16)


def changed(value, dtype=float):
    """The rows with one entry changed, in the third partition."""
    x = X.astype(dtype)
    x[45, 2] = value
    return x


def labelled(value, dtype=object):
    y = Y.astype(dtype)
    y[45] = value
    return y


def table(**columns):
    return frame(X, Y).assign(**columns)


def lazy(pandas):
    return dd.from_pandas(pandas, npartitions=3, sort=False)


BAD = {
    "nan": (
        (da.from_array(changed(np.nan), chunks=(20, 4)), LABELS),
        "partition 2, row 5: the value of index 2 is nan",
    ),
    "inf": (
        (da.from_array(changed(-np.inf), chunks=(20, 4)), LABELS),
        "partition 2, row 5: the value of index 2 is -inf",
    ),
    "nan in csr": (
        (da.from_array(changed(np.nan), chunks=(20, 4)).map_blocks(sp.csr_array), LABELS),
        "partition 2, row 5: the value of index 2 is nan",
    ),
    "nan in memory": ((changed(np.nan), Y), "X, row 45: the value of index 2 is nan"),
    "nan in a frame": ((lazy(frame(changed(np.nan), Y)),), "partition 2, row 5: column 'c' has no number here"),
    "nan in pandas": ((frame(changed(np.nan), Y),), "X, row 45: column 'c' has no number here"),
    "inf in polars": ((pl.from_pandas(frame(changed(np.inf))), Y), "X, row 45: the value of column 'c' is inf"),
    "large": ((changed(1e200), Y), "row 45: the row's norm is above"),
    "missing label": ((ARRAY, da.from_array(labelled(None), chunks=20)), "partition 2, row 5: the label is missing"),
    "nan label": (
        (ARRAY, da.from_array(np.where(np.arange(60) == 45, np.nan, 1.0), chunks=20)),
        "partition 2, row 5: the label",
    ),
    "empty label": ((X, labelled("")), "X, row 45: the label is missing"),
    "missing label in a frame": ((lazy(table(label=labelled(None))),), "partition 2, row 5: the label is missing"),
    "labels of two types": ((ARRAY, da.from_array(labelled(7), chunks=20)), "partition 2: the labels cannot be read"),
    "labels of dates": ((X, np.arange(60).astype("M8[D]")), "the labels are date32.* convert them"),
    "one class": ((ARRAY, np.ones(60)), "a single class was found: 1; an SVM needs rows of two"),
    "fewer labels": ((ARRAY, LABELS[:50]), "y: 50 values for 60 rows"),
    "fewer labels in memory": ((ARRAY, Y[:50]), "y: 50 values for 60 rows"),
    "fewer labels, arrays": ((X, Y[:50]), "X: 60 rows, but the labels are 50"),
    "fewer labels, frames": ((frame(X), pd.Series(Y[:50])), "X: 60 rows, but the labels are 50"),
    "fewer labels, unknown sizes": (
        (unknown(ARRAY), LABELS[da.from_array(np.arange(60) != 21, chunks=20)]),
        "partition 1: 20 rows, but the labels are 19",
    ),
    "other partitions": (
        (unknown(ARRAY), unknown(LABELS.rechunk(30))),
        "has 3 partitions and y 2; they must be cut alike",
    ),
    "labels in memory, unknown sizes": ((unknown(ARRAY), Y), r"y: is in memory.* compute_chunk_sizes\(\)"),
    "two columns of labels": ((ARRAY, da.ones((60, 2), chunks=20)), "y: has 2 dimensions; give one value a row"),
    "no labels": ((ARRAY,), "the Dask array: an array has no labels in it; give them as y"),
    "no labels in memory": ((X,), "X: an array has no labels in it; give them as y"),
    "no labels in a frame": ((lazy(frame(X)),), "no column 'label' for the labels; there are a, b, c, d"),
    "column blocks": ((ARRAY.rechunk((20, 2)), LABELS), r"2 blocks of columns.* pass x.rechunk\(\{1: -1\}\)"),
    "object": (
        (changed("x", object), Y),
        r"of type object, not of numbers; encode text and dates, then x.astype\(float\)",
    ),
    "object on Dask": (
        (da.from_array(changed("x", object), chunks=(20, 4)), LABELS),
        "the Dask array: the matrix is of type object",
    ),
    "complex": ((X * 1j, Y), "of type complex128, not of numbers"),
    "one dimension": ((X[:, 0], Y), r"has 1 dimensions.* x.reshape\(-1, 1\)"),
    "no column": ((X[:, :0], Y), "0 features, and there may be 1"),
    "no rows": ((X[:0], Y[:0]), "no rows"),
    "no rows on Dask": ((ARRAY[:0], LABELS[:0]), "the Dask array: no rows in any partition"),
    "masked": ((np.ma.array(X, mask=X > 0.99), Y), r"row \d+: an entry is masked"),
    "text column": ((frame(X, Y).assign(b=Y),), "X: column 'b' is .*string, not numeric"),
    "text column on Dask": ((lazy(frame(X, Y).assign(b=Y)),), "the Dask frame: column 'b' is .*string, not numeric"),
    "column of two types": ((table(b=[1, "x"] * 30),), "X: column 'b' cannot be read"),
    "column twice": ((pd.DataFrame(X, columns=["a", "b", "b", "c"]), Y), "column 'b' stands twice"),
    "series": ((pd.Series(X[:, 0]), Y), "X: a Series is no table with columns"),
    "Dask series": ((lazy(frame(X))["a"], LABELS), r"is a Series.* s.to_frame\(\)"),
    "lazy polars": ((pl.from_pandas(frame(X)).lazy(), Y), r"a LazyFrame of polars is no table of rows.* \.collect\(\)"),
    "Dask labels of rows in memory": (
        (X, LABELS),
        r"y: is a Dask collection, but the rows are in memory; pass y.compute\(\)",
    ),
    "delayed": ((dask.delayed(X), Y), "a Delayed.* of Dask has no partitions of rows"),
    "a dict": (({"a": 1}, Y), "dict is nothing that can be read; give a path"),
    "a bag without hasher": ((bag(X, Y),), r"a hasher with n_features and transform; pass hasher=.*FeatureHasher"),
    "text for y": ((ARRAY, "label"), "y is a text; give an array, or name a column"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(name, tmp_path):
    arguments, expected = BAD[name]
    settings = {"out": tmp_path / "shards"} if is_dask(arguments[0]) else {}
    settings |= {"columns": "none"} if is_frame(arguments[0]) else {}
    with pytest.raises(SieveError, match=expected) as caught:
        dataset_of(*arguments, **settings)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_weights_that_no_row_can_have(weight):
    weights = np.where(np.arange(60) == 45, weight, 1.0)
    with pytest.raises(DataError, match=r"partition 2, row 5: (the )?weight"):
        dataset_of(ARRAY, LABELS, sample_weight=da.from_array(weights, chunks=20))


def test_a_bag_with_a_row_that_has_no_label():
    some = db.from_sequence([{"a": 1, "label": "x"}, {"b": 2, "label": "y"}, {"a": 2}], npartitions=2)
    with pytest.raises(DataError, match="the Dask bag, partition 1, row 0: no label under 'label'"):
        dataset_of(some, hasher=HASHER)
    texts = db.from_sequence([{"a": object(), "label": 1}], npartitions=1)
    with pytest.raises(DataError, match="partition 0: the hasher cannot read these rows"):
        dataset_of(texts, hasher=HASHER)


def test_settings_that_do_not_apply(tmp_path):
    for settings, expected in (
        ({"weight": "w"}, "weight names a column, and an array has none"),
        ({"hasher": HASHER}, "hasher applies to Dask collections"),
        ({"out": tmp_path}, "out applies to Dask collections"),
    ):
        with pytest.raises(SieveError, match=expected):
            dataset_of(X, Y, **settings)
    with pytest.raises(SieveError, match="y belongs to arrays and frames; data in files have labels"):
        dataset_of("rows.svm", Y)
    with pytest.raises(SieveError, match="y and label both"):
        dataset_of(frame(X, Y), Y, label="label")
    data = dataset_of(X, Y)
    assert dataset_of(data) is data
    with pytest.raises(SieveError, match="bias applies when data are read"):
        dataset_of(data, bias=1.0)
    with pytest.raises(DataError, match="--bias nan is no finite number"):
        dataset_of(X, Y, bias=float("nan"))


def test_an_error_of_the_users_own_graph_is_one_line_with_that_behind_it():
    def fails(block):
        raise KeyError("no such object in the store")

    with pytest.raises(EngineError, match=r"cannot be computed \(KeyError: 'no such object in the store'\)") as caught:
        dataset_of(ARRAY.map_blocks(fails, dtype=float, meta=np.empty((0, 0))), LABELS)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_partition_with_other_columns_than_its_frame_says(tmp_path):
    whole = frame(X, Y)
    parts = [dask.delayed(whole[:30]), dask.delayed(whole[30:].drop(columns="c"))]
    mixed = dd.from_delayed(parts, meta=whole[:0], verify_meta=False)
    with pytest.raises(DataError, match="partition 1: no column c, which other parts have"):
        dataset_of(mixed, out=tmp_path / "shards", columns="none")
    wider = da.map_blocks(lambda b: np.ones((len(b), 5)), ARRAY, meta=np.empty((0, 0)), dtype=float)
    with pytest.raises(DataError, match=r"partition \d: 5 columns, not 4"):
        dataset_of(wider, LABELS)


def test_arrow_lists_are_refused():
    lists = pa.table({"indices": [[0], [1]], "values": [[1.0], [2.0]], "label": [0, 1]})
    with pytest.raises(DataError, match="list columns indices and values; give a SciPy CSR matrix"):
        dataset_of(lists)
