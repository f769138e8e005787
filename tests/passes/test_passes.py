"""Every pass against dense NumPy, and the same numbers from shards, from Parquet in place and on any engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.maths.csr import SparseVector
from pipeline.passes.gather import gather
from pipeline.passes.products import margins
from pipeline.passes.sums import cost_sum, row_sum
from pipeline.use.describe import QUANTILES, describe
from tests.formats import Table, write_parquet_lists

EXACT = 4e-15  # a few roundings, relative to the sum of absolute values


@dataclass(frozen=True)
class Made:
    """A small data set as plain arrays, and the same opened as shards and as Parquet in place."""

    x: np.ndarray
    y: np.ndarray
    costs: np.ndarray
    shards: Dataset
    in_place: Dataset

    @property
    def z(self) -> np.ndarray:
        return self.y[:, None] * self.x


@pytest.fixture(scope="module")
def inline():
    with Engine("inline") as engine:
        yield engine


@pytest.fixture(scope="module")
def threads():
    with Engine("threads", 3) as engine:
        yield engine


@pytest.fixture
def make(tmp_path_factory):
    """Write rows as two Parquet files, the first with float32 values only, and open them both ways."""

    def made(x, y, costs, rows_per_shard=3, row_group=2, bias=0.0) -> Made:
        folder = tmp_path_factory.mktemp("passes")
        (folder / "rows").mkdir()
        half = len(y) // 2
        for name, part in (("a", slice(0, half)), ("b", slice(half, None))):
            path = folder / "rows" / f"{name}.parquet"
            write_parquet_lists(path, Table(x[part], y[part], costs[part]), row_group_size=row_group)
        reading = ReadOptions(rules=ReadRules(features=x.shape[1]))
        spec = IngestSpec(reading, bias=bias, rows_per_shard=rows_per_shard)
        ingest([str(folder / "rows")], folder / "shards", spec)
        x = np.column_stack([x, np.full(len(y), bias)]) if bias else x
        return Made(x, y, costs, open_shards(folder / "shards"), open_dataset(folder / "rows", spec))

    return made


entries = st.one_of(
    st.just(0.0), st.just(0.0), st.floats(1e-6, 100), st.floats(-100, -1e-6), st.sampled_from([1.0, 0.1])
)


@st.composite
def inputs(draw):
    """Rows (some without features), labels of both kinds, costs, and how to cut them."""
    n, d = draw(st.integers(2, 14)), draw(st.integers(1, 9))
    x = np.array(draw(st.lists(entries, min_size=n * d, max_size=n * d))).reshape(n, d)
    half = n // 2
    x[:half] = x[:half].astype(np.float32)
    y = np.array(draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n)))
    y[draw(st.integers(0, n - 2))] = -y[-1]
    costs = np.array(draw(st.lists(st.floats(0.01, 100), min_size=n, max_size=n)))
    cuts = {"rows_per_shard": draw(st.integers(1, 15)), "row_group": draw(st.integers(1, 5))}
    return (x, y, costs), cuts | {"bias": draw(st.sampled_from([0.0, 1.0, 0.1]))}


def vectors(size: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(-1e3, 1e3), min_size=size, max_size=size).map(np.array)


def norms_of(x: np.ndarray) -> np.ndarray:
    """Row norms without underflow, as a judge should have them."""
    scale = np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-300)
    return scale[:, 0] * np.linalg.norm(x / scale, axis=1)


def assert_close(found: np.ndarray, expected: np.ndarray, scale: np.ndarray) -> None:
    assert found.dtype == np.float64
    assert found.shape == expected.shape
    assert np.all(np.abs(found - expected) <= EXACT * len(found) * scale)


@settings(max_examples=40)
@given(drawn=inputs(), data=st.data())
def test_margins(make, inline, threads, drawn, data):
    made = make(*drawn[0], **drawn[1])
    w = data.draw(vectors(made.x.shape[1]))
    found = margins(inline, made.shards, w)
    assert_close(found, made.z @ w, 20 * np.abs(made.z) @ np.abs(w))
    for engine, opened in ((threads, made.shards), (inline, made.in_place), (threads, made.in_place)):
        assert margins(engine, opened, w).tobytes() == found.tobytes()


@settings(max_examples=40)
@given(drawn=inputs())
def test_cost_sum(make, inline, threads, drawn):
    made = make(*drawn[0], **drawn[1])
    expected, scale = made.costs @ made.z, 20 * made.costs @ np.abs(made.z)
    for opened in (made.shards, made.in_place):
        found = cost_sum(inline, opened)
        assert_close(found, expected, scale)
        assert cost_sum(threads, opened).tobytes() == found.tobytes()


@settings(max_examples=40)
@given(drawn=inputs(), data=st.data())
def test_row_sum_has_the_same_bits_by_either_way(make, inline, threads, drawn, data):
    made = make(*drawn[0], **drawn[1])
    some = st.one_of(st.just(0.0), st.floats(-1e3, 1e3, allow_subnormal=False))
    a = np.array(data.draw(st.lists(some, min_size=len(made.y), max_size=len(made.y))))
    found = row_sum(inline, made.shards, a)
    assert_close(found, a @ made.z, 20 * np.abs(a) @ np.abs(made.z))
    assert row_sum(threads, made.shards, a).tobytes() == found.tobytes()
    for shard in made.shards.shards:
        rows = shard.load()
        terms = rows.indptr, rows.indices, rows.values, a[shard.first_row : shard.first_row + shard.n_rows]
        sums = [way(*terms, rows.n_features).dense() for way in (csr.weighted_sum, csr.dense_sum)]
        np.testing.assert_array_equal(*sums)


@settings(max_examples=40)
@given(drawn=inputs(), data=st.data())
def test_gather(make, inline, threads, drawn, data):
    made = make(*drawn[0], **drawn[1])
    n = len(made.y)
    drawn_mask = st.lists(st.booleans(), min_size=n, max_size=n).map(lambda m: np.array(m, dtype=bool))
    mask = data.draw(st.one_of(st.just(np.zeros(n, bool)), st.just(np.ones(n, bool)), drawn_mask))
    for engine, opened in ((inline, made.shards), (threads, made.shards), (threads, made.in_place)):
        found = gather(engine, opened, mask)
        np.testing.assert_array_equal(found.x.toarray(), made.x[mask])
        np.testing.assert_array_equal(found.labels, made.y[mask])
        np.testing.assert_allclose(found.norms, norms_of(made.x[mask]), rtol=1e-14)
        np.testing.assert_array_equal(found.rows, np.flatnonzero(mask))
        assert found.x.scipy().has_canonical_format


@settings(max_examples=40)
@given(drawn=inputs())
def test_describe(make, inline, threads, drawn):
    made = make(*drawn[0], **drawn[1])
    lengths, norms = np.count_nonzero(made.x, axis=1), norms_of(made.x)
    for engine, opened in ((inline, made.shards), (threads, made.in_place)):
        found = describe(engine, opened)
        assert (found.rows, found.features, found.nnz) == (*made.x.shape, lengths.sum())
        assert found.density == lengths.sum() / made.x.size
        assert (found.positives, found.negatives) == ((made.y == 1).sum(), (made.y == -1).sum())
        assert found.positives == opened.n_positive
        assert found.row_lengths == tuple(np.quantile(lengths, QUANTILES))
        assert found.cost_range == (made.costs.min(), made.costs.max())
        np.testing.assert_allclose(found.norms, np.quantile(norms, QUANTILES), rtol=1e-14)
        np.testing.assert_allclose(found.cost_total, made.costs.sum(), rtol=1e-14)
        assert found.fingerprint == made.shards.fingerprint


@pytest.fixture
def ten_rows(make):
    """Shards of float32 and of float64 values side by side, a row without features, and costs."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random((10, 4)) < 0.5, rng.standard_normal((10, 4)), 0.0)
    x[:5], x[3] = x[:5].astype(np.float32), 0.0
    return make(x, np.where(np.arange(10) % 2, 1, -1), np.arange(1.0, 11.0), rows_per_shard=5)


def test_parquet_by_a_relative_path_is_found_from_another_directory(inline, tmp_path, monkeypatch):
    """As a worker of a cluster does."""
    write_parquet_lists(tmp_path / "rows.parquet", Table(np.eye(3), np.array([1, -1, 1]), np.ones(3)))
    monkeypatch.chdir(tmp_path)
    data = open_dataset("rows.parquet")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(cost_sum(inline, data), [1, -1, 1])


def test_a_gathered_matrix_is_as_narrow_as_its_rows(inline, ten_rows):
    assert [shard.load().values.dtype for shard in ten_rows.shards.shards] == [np.float32, np.float64]
    first = np.arange(10) < 5
    assert gather(inline, ten_rows.shards, first).x.dtype == np.float32
    assert gather(inline, ten_rows.shards, ~first).x.dtype == np.float64
    assert gather(inline, ten_rows.shards, first | True).x.dtype == np.float64


def test_gathering_looks_only_at_shards_with_selected_rows(inline, ten_rows):
    Path(ten_rows.shards.shards[1].path).unlink()
    found = gather(inline, ten_rows.shards, np.arange(10) == 2)
    np.testing.assert_array_equal(found.x.toarray(), ten_rows.x[[2]])


@pytest.mark.parametrize("w", [np.zeros(3), np.zeros(5), np.zeros((4, 1)), np.zeros(())])
def test_margins_refuses_another_shape(inline, ten_rows, w):
    with pytest.raises(ValueError, match="but the data have 4 features"):
        margins(inline, ten_rows.shards, w)


@pytest.mark.parametrize(
    "w", [np.arange(4), np.arange(4, dtype=np.float32), np.arange(8.0)[::2], np.ones((4, 2))[:, 0]]
)
def test_margins_takes_any_vector_of_numbers(inline, ten_rows, w):
    expected = margins(inline, ten_rows.shards, np.array(w, dtype=np.float64))
    assert margins(inline, ten_rows.shards, w).tobytes() == expected.tobytes()


@pytest.mark.parametrize("mask", [np.ones(9, bool), np.ones(11, bool), np.ones((10, 1), bool), np.ones(10, int)])
def test_gather_refuses_another_mask(inline, ten_rows, mask):
    with pytest.raises(ValueError, match="the mask must be boolean with 10 entries"):
        gather(inline, ten_rows.shards, mask)


# The loops underneath, where words of 64 features begin and end


def random_rows(n_features: int, occurring: np.ndarray, n_rows: int, seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(occurring, rng.integers(0, occurring.size + 1), replace=False)) for _ in range(n_rows)]
    indptr = np.concatenate([[0], np.cumsum([row.size for row in rows])]).astype(np.int32)
    indices = np.concatenate(rows).astype(np.int32)
    return indptr, indices, rng.standard_normal(indices.size).astype(np.float32), rng.standard_normal(n_rows)


def reference(indptr, indices, values, coefficients) -> dict[int, float]:
    total: dict[int, float] = {}
    for i, a in enumerate(coefficients):
        for k in range(indptr[i], indptr[i + 1]):
            total[int(indices[k])] = total.get(int(indices[k]), 0.0) + a * float(values[k])
    return dict(sorted(total.items()))


@pytest.mark.parametrize("n_features", [1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 1 << 24, (1 << 31) - 1])
def test_weighted_sum_and_add_sparse(n_features):
    if n_features > 1 << 30 and psutil.virtual_memory().available < 4 << 30:
        pytest.skip("needs half a gigabyte for a while")
    edges = [0, 1, 62, 63, 64, 65, 126, 127, 128, 129, n_features // 2, n_features - 2, n_features - 1]
    occurring = np.array(sorted({j for j in edges if 0 <= j < n_features}))
    sums, expected = [], []
    for seed in range(2):
        rows = random_rows(n_features, occurring, 7, seed)
        found = csr.weighted_sum(*rows, n_features)
        expected.append(reference(*rows))
        assert found.size == n_features
        assert found.index.tolist() == list(expected[-1])
        assert found.value.tolist() == list(expected[-1].values())
        sums.append(found)
    both = csr.add_sparse(*sums)
    keys = sorted(set(expected[0]) | set(expected[1]))
    assert both.index.tolist() == keys
    assert both.value.tolist() == [expected[0].get(j, 0.0) + expected[1].get(j, 0.0) for j in keys]


def vector(pairs: dict[int, float], size: int = 10) -> SparseVector:
    return SparseVector(np.array(list(pairs), np.int32), np.array(list(pairs.values()), np.float64), size)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({}, {}),
        ({3: 1.0}, {}),
        ({}, {3: 1.0}),
        ({3: 1.0}, {3: -1.0}),
        ({0: 1.0, 9: 2.0}, {4: 5.0}),
        ({1: 1.0}, {0: 2.0}),
    ],
)
def test_add_sparse_at_the_ends(a, b):
    found = csr.add_sparse(vector(a), vector(b))
    np.testing.assert_array_equal(found.dense(), vector(a).dense() + vector(b).dense())
    assert np.all(np.diff(found.index) > 0)


def test_the_sum_of_rows_without_features(inline):
    found = csr.weighted_sum(np.zeros(4, np.int32), np.empty(0, np.int32), np.empty(0, np.float32), np.ones(3), 100)
    assert found.index.size == found.value.size == 0
    np.testing.assert_array_equal(found.dense(), np.zeros(100))
