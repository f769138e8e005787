"""Arrays as a data set: the rows, digests and fingerprint of the same rows in files, and errors that name the row."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.data import in_memory as module
from pipeline.data.dataset import open_shards
from pipeline.data.in_memory import in_memory
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.reading.labels import LabelMap
from pipeline.data.shards.rows import Rows
from pipeline.errors import DataError

TWO = LabelMap(("0",), ("1",))


def table(n=40, d=7, classes=2):
    """Rows with zeros, labels of so many classes, and costs; no random numbers."""
    i, j = np.arange(n)[:, None], np.arange(d)[None, :]
    x = np.where((i * 3 + j * 5) % 4 == 0, 0.0, np.sin(i * d + j) * (1 + j))
    return x, np.arange(n) % classes, 0.5 + np.arange(n) % 3


def ingested(folder, x, y, costs, bias=0.0):
    """The same rows by way of a file."""
    csr = sp.csr_array(x)
    arrays = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape, "y": y}
    np.savez(folder / "rows.npz", **arrays, weight=costs)
    ingest([str(folder / "rows.npz")], folder / "shards", IngestSpec(bias=bias, rows_per_shard=17))
    return open_shards(folder / "shards")


def joined(data) -> Rows:
    parts = [shard.load() for shard in data.shards]
    names = ("labels", "costs", "norms", "indices", "values")
    found = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    return Rows(np.append(0, np.cumsum(lengths)), **found, n_features=data.n_features)


@pytest.mark.parametrize("bias", [0.0, 1.0, 0.1])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_same_rows_as_in_files(tmp_path, bias, classes):
    x, y, costs = table(classes=classes)
    names = tuple(map(str, range(classes)))
    labels = TWO if classes == 2 else LabelMap((), (), classes=names)
    data, files = in_memory(x, y, labels, costs, bias=bias), ingested(tmp_path, x, y, costs, bias)
    assert (data.fingerprint, data.labels) == (files.fingerprint, files.labels)
    assert (data.n_rows, data.nnz, data.n_features) == (files.n_rows, files.nnz, files.n_features)
    assert (data.n_positive, data.class_counts, data.bias) == (files.n_positive, files.class_counts, files.bias)
    ours, theirs = joined(data), joined(files)
    for name in ("indptr", "indices", "values", "labels", "costs", "norms"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


@pytest.mark.parametrize(
    "form", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array, np.asfortranarray, np.float32, np.array]
)
def test_any_matrix_gives_the_same_rows(form):
    x, y, _ = table()
    x = x.astype(np.float32).astype(np.float64)
    assert in_memory(form(x), y, TWO).fingerprint == in_memory(x, y, TWO).fingerprint


def test_sparse_rows_with_wide_indices_out_of_order_and_twice_are_put_in_order():
    x = sp.csr_array(
        (np.array([1.0, 2.0, 3.0, 4.0, -4.0]), np.array([2, 0, 0, 1, 1]), np.array([0, 3, 5])), shape=(2, 3)
    )
    x.indices, x.indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
    before = x.indices.copy(), x.data.copy()
    for array in (x.data, x.indices, x.indptr):
        array.flags.writeable = False
    rows = in_memory(x, np.array([0, 1]), TWO).shards[0].load()
    assert rows.csr().toarray().tolist() == [[5.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert rows.nnz == 2
    assert np.array_equal(x.indices, before[0])
    assert np.array_equal(x.data, before[1])


def test_arrays_are_not_held_nor_changed():
    x, y, _ = table()
    x.flags.writeable = False
    data = in_memory(x, y, TWO)
    x.flags.writeable = True
    x[:] = 7.0
    assert data.fingerprint == in_memory(table()[0], y, TWO).fingerprint
    assert not np.any(data.shards[0].load().values == 7.0)


def test_blocks_and_shards_do_not_change_the_rows(monkeypatch):
    x, y, costs = table()
    whole = in_memory(x, y, TWO, costs, bias=1.0)
    monkeypatch.setattr(module, "CELLS", 5 * x.shape[1])
    monkeypatch.setattr(module.ShardCutter, "__init__", _small(module.ShardCutter.__init__))
    for form in (np.array, sp.csr_array):
        cut = in_memory(form(x), y, TWO, costs, bias=1.0)
        assert len(cut.shards) > 3
        ends = np.cumsum([shard.n_rows for shard in cut.shards]).tolist()
        assert [shard.first_row for shard in cut.shards] == [0, *ends[:-1]]
        assert cut.fingerprint == whole.fingerprint
        assert np.array_equal(joined(cut).values, joined(whole).values)


def _small(init):
    return lambda cutter, rows, has_bias=False: init(cutter, 9, has_bias=has_bias)


def test_what_cannot_be_trained_on_is_named():
    x, y, costs = table()
    x[5, 3] = np.nan
    with pytest.raises(DataError, match=r"^X, row 5: the value of column 'c3' is nan; .* clean or drop the row$"):
        in_memory(x, y, TWO, columns=tuple(f"c{k}" for k in range(7)), name="X")
    with pytest.raises(DataError, match="row 5: the value of index 3 is nan"):
        in_memory(sp.csr_array(x), y, TWO)
    costs[7] = -1.0
    with pytest.raises(DataError, match="row 7: weight -1 is not a positive finite number"):
        in_memory(table()[0], y, TWO, costs)
    with pytest.raises(DataError, match="has 0 features"):
        in_memory(np.empty((3, 0)), y[:3], TWO)


def test_the_row_of_a_later_block_is_named(monkeypatch):
    x, y, _ = table()
    monkeypatch.setattr(module, "CELLS", 5 * x.shape[1])
    x[23, 1] = np.inf
    with pytest.raises(DataError, match="row 23: the value of index 1 is inf"):
        in_memory(x, y, TWO)
