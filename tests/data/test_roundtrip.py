"""Any small matrix survives every format and comes back exactly, wherever the shards are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from tests.formats import WRITERS, Table, contents, write_parquet_lists

pytestmark = pytest.mark.usefixtures("tables_as_they_are")

LABELS = [("-1", "1"), ("0", "1"), ("1", "2"), ("ham", "spam"), ("-3.5", "2.25")]

values = st.one_of(
    st.just(0.0),
    st.floats(-1e100, 1e100, allow_nan=False, width=64),
    st.floats(-10, 10, width=32),
    st.sampled_from([1.0, -1.0, 0.1, 1 / 3, 5e-324, 1e-310, 123456789.123456789]),
)


@st.composite
def tables(draw):
    n, d = draw(st.integers(2, 12)), draw(st.integers(1, 6))
    x = np.array(draw(st.lists(values, min_size=n * d, max_size=n * d))).reshape(n, d)
    low, high = draw(st.sampled_from(LABELS))
    signs = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    signs[draw(st.integers(0, n - 2))], signs[-1] = not signs[-1], signs[-1]
    y = np.array([high if s else low for s in signs])
    costs = np.array(draw(st.lists(st.floats(1e-6, 1e6), min_size=n, max_size=n)))
    return Table(x, y, costs), np.where(signs, 1, -1)


@pytest.mark.parametrize("kind", WRITERS)
@given(made=tables(), rows_per_shard=st.integers(1, 13), bias=st.sampled_from([0.0, 1.0, 0.1]))
def test_every_format_comes_back_exactly(tmp_path_factory, kind, made, rows_per_shard, bias):
    table, signs = made
    folder = tmp_path_factory.mktemp("roundtrip")
    write, name = WRITERS[kind]
    path = write(folder / name, table)
    n, d = table.x.shape
    reading = ReadOptions(rules=ReadRules(base=1 if kind == "svmlight" else None, features=d))
    spec = IngestSpec(reading, bias=bias, rows_per_shard=rows_per_shard)
    manifest = ingest([str(path)], folder / "out", spec)
    found = contents(open_shards(folder / "out"))
    assert manifest.rows == n
    assert manifest.features == d + (bias != 0)
    assert len(manifest.shards) == -(-n // rows_per_shard)
    np.testing.assert_array_equal(found.x[:, :d], table.x)
    np.testing.assert_array_equal(found.labels, signs)
    if kind != "svmlight":
        np.testing.assert_array_equal(found.costs, table.costs)
    if bias:
        np.testing.assert_array_equal(found.x[:, d], bias)
    scale = np.maximum(np.abs(found.x).max(axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(found.norms, (scale * np.linalg.norm(found.x / scale, axis=1, keepdims=True))[:, 0])


@given(made=tables(), cuts=st.tuples(st.integers(1, 13), st.integers(1, 13)), group=st.integers(1, 5))
def test_shard_boundaries_never_matter(tmp_path_factory, made, cuts, group):
    table, _ = made
    folder = tmp_path_factory.mktemp("cuts")
    path = str(write_parquet_lists(folder / "rows.parquet", table, row_group_size=group))
    spec = IngestSpec(ReadOptions(rules=ReadRules(features=table.x.shape[1])))
    found = []
    for k, rows in enumerate(cuts):
        ingest([path], folder / str(k), IngestSpec(spec.reading, rows_per_shard=rows))
        found.append(open_shards(folder / str(k)))
    in_place = open_dataset(path, spec)
    assert found[0].fingerprint == found[1].fingerprint == in_place.fingerprint
    for data in (found[1], in_place):
        np.testing.assert_array_equal(contents(data).x, contents(found[0]).x)
        np.testing.assert_array_equal(contents(data).labels, contents(found[0]).labels)
        np.testing.assert_array_equal(contents(data).norms, contents(found[0]).norms)


@given(made=tables(), row=st.integers(0, 11), what=st.sampled_from(["value", "label", "cost", "order"]))
def test_the_fingerprint_sees_every_change(tmp_path_factory, made, row, what):
    table, _ = made
    row %= len(table.y) - 1
    x, y, costs = table.x.copy(), table.y.copy(), table.costs.copy()
    if what == "value":
        x[row, 0] = 7.0 if x[row, 0] != 7.0 else 8.0
    elif what == "cost":
        costs[row] *= 2
    elif what == "label":
        low, high = np.unique(y)
        y[row] = low if y[row] == high else high
        if np.unique(y).size < 2:
            return
    else:
        order = np.arange(y.size)
        order[[row, row + 1]] = order[[row + 1, row]]
        x, y, costs = x[order], y[order], costs[order]
        if all((a == b).all() for a, b in ((x, table.x), (y, table.y), (costs, table.costs))):
            return
    folder = tmp_path_factory.mktemp("changes")
    before = open_dataset(write_parquet_lists(folder / "a.parquet", table))
    after = open_dataset(write_parquet_lists(folder / "b.parquet", Table(x, y, costs)))
    assert before.fingerprint != after.fingerprint
