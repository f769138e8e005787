"""Every kind of input gives the rows, the labels and the fingerprint that ``svmsieve ingest`` gives."""

from __future__ import annotations

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.feature_extraction import FeatureHasher

from pipeline.collections.door import dataset_of
from pipeline.collections.kinds import is_frame
from pipeline.collections.matrices import MatrixReader
from pipeline.collections.part import Part
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.errors import DataError
from tests.collections.worlds import bag, frame, kinds, rows, unknown

X, Y = rows()
KINDS = kinds(X, Y)
AS_THEY_ARE = {kind: {"columns": "none"} if is_frame(given[0]) else {} for kind, given in KINDS.items()}


@pytest.fixture(scope="module")
def ingested(tmp_path_factory):
    """The same rows, from a file."""
    folder = tmp_path_factory.mktemp("file")
    pq.write_table(kinds(X, Y)["pyarrow"][0].append_column("label", [Y.tolist()]), folder / "rows.parquet")
    ingest([str(folder / "rows.parquet")], folder / "shards", IngestSpec(bias=1.0))
    return open_shards(folder / "shards")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_fingerprint_of_the_file(kind, ingested):
    data = dataset_of(*KINDS[kind], bias=1.0, **AS_THEY_ARE[kind])
    assert data.fingerprint == ingested.fingerprint
    assert (data.labels, data.n_rows, data.n_features) == (ingested.labels, 60, 5)
    assert (data.nnz, data.n_positive) == (ingested.nnz, ingested.n_positive)
    named = any(word in kind for word in ("pandas", "polars", "pyarrow", "frame", "batch"))
    assert data.columns == (ingested.columns if named else None)


@pytest.mark.parametrize("kind", KINDS)
def test_shards_begin_where_the_last_one_ended(kind):
    data = dataset_of(*KINDS[kind], rows_per_shard=7, **AS_THEY_ARE[kind])
    assert [shard.first_row for shard in data.shards] == np.cumsum([0, *(s.n_rows for s in data.shards)])[:-1].tolist()
    dense = np.concatenate([shard.load().csr().toarray() for shard in data.shards])
    assert np.array_equal(dense, X)
    assert np.array_equal(np.concatenate([shard.load().labels for shard in data.shards]) > 0, Y == "yes")
    assert max(shard.n_rows for shard in data.shards) == 7


LABELS = {
    "integers": np.arange(60) % 3,
    "floats": (np.arange(60) % 4).astype(float),
    "one class a partition": np.repeat(["b", "a", "d", "c"], 15),
    "text of numbers": np.array(["10", "9", "8"])[np.arange(60) % 3],
    "signs": np.where(np.arange(60) % 5 > 2, 1, -1),
    "booleans": np.arange(60) % 2 > 0,
    "one at the end": np.array(["x"] * 59 + ["a"]),
}


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("positive", [None, "first"])
def test_labels_mean_the_same_on_partitions(name, positive):
    y = LABELS[name]
    chosen = None if positive is None else y[-1]
    here = dataset_of(X, y, positive=chosen)
    there = dataset_of(da.from_array(X, chunks=(15, 4)), da.from_array(y, chunks=15), positive=chosen)
    assert there.labels == here.labels
    assert (there.fingerprint, there.n_positive) == (here.fingerprint, here.n_positive)
    assert there.class_counts == here.class_counts


def test_weights_and_groups():
    costs = 1.0 + np.arange(60) % 3
    table = frame(X, Y).assign(weight=costs, patient=np.arange(60) // 4)
    here = dataset_of(table, group="patient", columns="none")
    lazy = dask.dataframe.from_pandas(table, npartitions=4)
    there = dataset_of(lazy, group="patient", columns="none")
    assert (there.fingerprint, there.group, there.columns) == (here.fingerprint, "patient", here.columns)
    assert here.columns == ("a", "b", "c", "d")
    assert np.array_equal(np.concatenate([shard.load().costs for shard in there.shards]), costs)
    apart = dataset_of(frame(X), Y, sample_weight=costs, columns="none")
    assert apart.fingerprint == dataset_of(X, Y, sample_weight=costs).fingerprint
    array = da.from_array(X, chunks=(20, 4))
    assert apart.fingerprint == dataset_of(array, Y, sample_weight=da.from_array(costs, chunks=9)).fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_0_are_not_there(kind):
    """They count neither as rows nor in what is learnt of columns; errors have the numbers that rows had."""
    costs = np.where(np.arange(60) % 4 == 1, 0.0, 1.0 + np.arange(60) % 2)
    x, *y = KINDS[kind]
    if not y:
        pytest.skip("labels and weights are columns")
    weight = costs
    if "unknown" in kind:
        weight = unknown(da.from_array(costs, chunks=KINDS["dask array"][0].chunks[:1]))
    elif isinstance(y[0], da.Array):
        weight = da.from_array(costs, chunks=y[0].chunks)
    elif isinstance(y[0], dd.Series):
        weight = y[0].map_partitions(lambda part: pd.Series(costs[part.index]), meta=pd.Series(dtype=float))
    for columns in ("none", "auto") if is_frame(x) else (None,):
        found = dataset_of(x, *y, sample_weight=weight, columns=columns)
        rest = dataset_of(
            X[costs > 0] if columns is None else frame(X[costs > 0]),
            Y[costs > 0],
            columns=columns,
            sample_weight=costs[costs > 0],
        )
        assert found.fingerprint == rest.fingerprint
        assert (found.n_rows, found.labels) == (45, rest.labels)


def test_an_error_has_the_number_that_the_row_had():
    costs, x = np.where(np.arange(60) < 30, 0.0, 1.0), X.copy()
    x[42, 1] = np.inf
    for rows_given, columns in ((x, None), (frame(x), "none")):
        with pytest.raises(DataError, match="row 42"):
            dataset_of(rows_given, Y, sample_weight=costs, columns=columns)
    with pytest.raises(DataError, match="no rows of weight above 0"):
        dataset_of(X, Y, sample_weight=np.zeros(60))


def test_a_column_called_weight_is_a_feature_where_labels_are_given_apart():
    table = frame(X, Y).rename(columns={"c": "weight"}).drop(columns="label")
    assert dataset_of(table, Y, columns="none").columns == ("a", "b", "weight", "d")


def test_ignored_columns_are_no_features():
    assert dataset_of(frame(X, Y), ignore=["b"], columns="none").columns == ("a", "c", "d")


def test_a_bag_is_hashed():
    hasher = FeatureHasher(n_features=32)
    data = dataset_of(bag(X, Y), hasher=hasher)
    records = [{k: v for k, v in row.items() if k != "label"} for row in bag(X, Y).compute()]
    assert data.fingerprint == dataset_of(hasher.transform(records), Y).fingerprint
    apart = dataset_of(
        bag(X, Y).map(lambda row: {k: v for k, v in row.items() if k != "label"}),
        bag(X, Y).pluck("label"),
        hasher=hasher,
    )
    assert apart.fingerprint == data.fingerprint


def test_empty_partitions_are_passed_over():
    array = da.from_array(X, chunks=(10, 4))
    some = array[da.from_array(np.arange(60) >= 30, chunks=10)]
    labels = da.from_array(Y, chunks=10)[da.from_array(np.arange(60) >= 30, chunks=10)]
    data = dataset_of(some, labels)
    assert len(data.shards) == 3
    assert data.fingerprint == dataset_of(X[30:], Y[30:]).fingerprint


def test_the_input_stays_as_it_was():
    matrix = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    matrix.data.flags.writeable = False
    dataset_of(matrix, [0, 1])
    assert matrix.indices.tolist() == [2, 0, 1]


def test_entries_that_stand_twice_are_added_up():
    twice = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert dataset_of(twice, [0, 1]).fingerprint == dataset_of(np.array([[0.0, 3.0], [3.0, 0.0]]), [0, 1]).fingerprint


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.bool_])
def test_numbers_of_any_type(dtype):
    x = (np.arange(240).reshape(60, 4) % 5 > 1).astype(dtype)
    assert dataset_of(x, Y).fingerprint == dataset_of(x.astype(float), Y).fingerprint
    lazy = dataset_of(da.from_array(x, chunks=(25, 4)), Y)
    assert lazy.fingerprint == dataset_of(x.astype(float), Y).fingerprint


ROWS = hnp.arrays(
    np.float64, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=st.sampled_from([0.0, 1.0, -2.5])
)


@given(x=ROWS, cuts=st.lists(st.integers(1, 5), min_size=1, max_size=4), classes=st.integers(2, 4), bias=st.booleans())
@settings(max_examples=25)
def test_any_cut_of_any_rows_is_the_same_data(x, cuts, classes, bias):
    y = np.arange(len(x)) % classes
    sizes, left = [], len(x)
    while left:
        sizes.append(min(left, cuts[len(sizes) % len(cuts)]))
        left -= sizes[-1]
    lazy = da.from_array(x, chunks=(tuple(sizes), (x.shape[1],)))
    there = dataset_of(lazy.map_blocks(sp.csr_array), y, bias=float(bias), scheduler="inline")
    here = dataset_of(x, y, bias=float(bias))
    assert (there.fingerprint, there.labels, there.nnz) == (here.fingerprint, here.labels, here.nnz)
    assert [shard.n_rows for shard in there.shards] == sizes


def test_pandas_with_a_missing_value_kind_of_its_own():
    table = frame(X, Y)
    table["a"] = table["a"].astype("Float64")
    assert dataset_of(table, columns="none").fingerprint == dataset_of(X, Y).fingerprint
    sparse = table.assign(b=pd.arrays.SparseArray(X[:, 1], fill_value=0.0))
    assert dataset_of(sparse, columns="none").fingerprint == dataset_of(X, Y).fingerprint


class Other:
    """A matrix of another package, which becomes CSR."""

    def __init__(self, x):
        self.x = x

    def tocsr(self):
        return sp.csr_array(self.x)


def test_blocks_of_another_package_become_csr():
    blocks = list(MatrixReader(4).blocks(Part(Other(X), "x", Y)))
    same = list(MatrixReader(4).blocks(Part(X, "x", Y)))
    assert sum(block.n_rows for block in blocks) == 60
    assert np.array_equal(blocks[0].values, same[0].values)
    assert np.array_equal(blocks[0].indices, same[0].indices)


def test_large_matrices_are_read_a_slice_at_a_time(monkeypatch):
    monkeypatch.setattr("pipeline.collections.matrices.BATCH_CELLS", 100)
    monkeypatch.setattr("pipeline.collections.matrices.NONZEROS_AT_A_TIME", 10)
    for x in (X, sp.csr_array(X)):
        blocks = list(MatrixReader(4).blocks(Part(x, "x", Y)))
        assert len(blocks) > 5
        assert np.array_equal(np.concatenate([block.values for block in blocks]), X[X != 0])
        assert [block.origin.first for block in blocks] == np.cumsum([0, *(b.n_rows for b in blocks)])[:-1].tolist()
