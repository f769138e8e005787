"""Partitions as shards: a directory as ingest makes it, computed once, whole or not there at all."""

from __future__ import annotations

import gc
import json
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest

from pipeline.collections.door import dataset_of
from pipeline.collections.matrices import MatrixReader
from pipeline.collections.writing import Writing, write_partition
from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.engine.engine import Engine
from pipeline.errors import DatasetError, EngineError
from pipeline.events import Progress
from pipeline.path.fit import fit_path
from pipeline.verify.verify import verify
from tests.collections.worlds import rows

X, Y = rows()
ARRAY, LABELS = da.from_array(X, chunks=(20, 4)), da.from_array(Y, chunks=20)
SETTINGS = {"grid": [0.1, 1.0], "tol": 1e-5, "scheduler": "inline"}


def npz(folder: Path, x=X, y=Y) -> str:
    found = np.flatnonzero
    counts = np.cumsum([0, *(found(row).size for row in x)])
    np.savez(
        folder / "rows.npz",
        data=np.concatenate([row[found(row)] for row in x]),
        indices=np.concatenate([found(row) for row in x]),
        indptr=counts,
        shape=x.shape,
        y=y,
    )
    return str(folder / "rows.npz")


def test_the_directory_is_that_of_ingest(tmp_path):
    """Shard by shard and to the byte, where both are cut alike; only the sources differ."""
    dataset_of(ARRAY, LABELS, bias=0.5, out=tmp_path / "dask")
    ingest([npz(tmp_path)], tmp_path / "file", IngestSpec(bias=0.5, rows_per_shard=20))
    names = sorted(path.name for path in (tmp_path / "file").iterdir())
    assert sorted(path.name for path in (tmp_path / "dask").iterdir()) == names
    for name in names[1:]:
        assert (tmp_path / "dask" / name).read_bytes() == (tmp_path / "file" / name).read_bytes()
    one, other = (json.loads((tmp_path / kind / "manifest.json").read_text()) for kind in ("dask", "file"))
    for manifest in (one, other):
        del manifest["sources"]
        for shard in manifest["shards"]:
            del shard["modified"]
    assert one == other
    assert [shard.n_rows for shard in open_shards(tmp_path / "dask", full_check=True).shards] == [20, 20, 20]


def test_the_model_is_that_of_ingest_to_the_bit(tmp_path):
    ingest([npz(tmp_path)], tmp_path / "file", IngestSpec(rows_per_shard=20))
    one = fit_path(ARRAY, LABELS, shards=tmp_path / "dask", out=tmp_path / "one", **SETTINGS)
    other = fit_path(tmp_path / "file", out=tmp_path / "other", **SETTINGS)
    memory = fit_path(X, Y, **SETTINGS)
    for a, b, c in zip(one.steps, other.steps, memory.steps, strict=True):
        assert np.array_equal(a.w, b.w)
        assert np.array_equal(a.alpha, b.alpha)
        assert abs(c.primal - a.primal) <= 1e-5 * a.primal
    with Engine("inline") as engine:
        assert all(finding.holds for finding in verify(engine, tmp_path / "one", open_shards(tmp_path / "file")))


def test_rows_of_a_file_are_appended(tmp_path):
    dataset_of(ARRAY[:40], LABELS[:40], out=tmp_path / "shards")
    ingest([npz(tmp_path, X[40:], Y[40:])], tmp_path / "shards", IngestSpec(append=True))
    assert open_shards(tmp_path / "shards").fingerprint == dataset_of(X, Y).fingerprint


def test_a_run_goes_on_with_the_collection_computed_again(tmp_path):
    first = fit_path(ARRAY, LABELS, out=tmp_path / "run", **SETTINGS)
    again = fit_path(ARRAY, LABELS, out=tmp_path / "run", **SETTINGS)
    assert np.array_equal(first.steps[-1].w, again.steps[-1].w)
    assert again.header.data.fingerprint == dataset_of(X, Y).fingerprint


def test_a_data_set_that_is_there_is_not_replaced(tmp_path):
    dataset_of(ARRAY, LABELS, out=tmp_path / "shards")
    with pytest.raises(DatasetError, match="a data set is there already; train on it by its path"):
        dataset_of(ARRAY, LABELS, out=tmp_path / "shards")


def test_every_partition_is_computed_once(tmp_path):
    """Also where what labels mean is known only at the end, and shards are amended."""
    count, lock = [0], threading.Lock()

    def counted(block):
        with lock:
            count[0] += 1
        return block

    x = ARRAY.map_blocks(counted, meta=np.empty((0, 0)), dtype=float)
    y = np.repeat(["c", "a", "b"], 20)
    data = dataset_of(x, y)
    assert count == [3]
    assert data.fingerprint == dataset_of(X, y).fingerprint


def test_temporary_shards_live_as_long_as_whoever_needs_them():
    data = dataset_of(ARRAY, np.arange(60) % 3)
    folder = Path(data.path).parent
    view = data.against_rest(1)
    del data
    gc.collect()
    assert folder.is_dir()
    del view
    gc.collect()
    assert not folder.exists()


def test_a_run_keeps_the_temporary_shards_of_its_kernel():
    run = fit_path(ARRAY, LABELS, kernel="rbf", grid=[1.0])
    gc.collect()
    assert Path(run.header.data.path).is_dir()
    step, folder = run.steps[0], Path(run.header.data.path)
    del run
    gc.collect()
    assert folder.is_dir()
    del step
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("scheduler", ["threads", "inline"])
def test_nothing_is_left_of_what_fails(tmp_path, scheduler, monkeypatch):
    """A partition fails while others have been written, and others still write."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    def fails(block, block_id=None):
        if block_id == (3, 0):
            raise OSError("no such object")
        return block

    x = da.from_array(X, chunks=(10, 4)).map_blocks(fails, meta=np.empty((0, 0)), dtype=float)
    for out in (tmp_path / "shards", None):
        with pytest.raises(EngineError, match="no such object"):
            dataset_of(x, Y, out=out, scheduler=scheduler)
        assert [path.name for path in tmp_path.iterdir()] == ["temporary"]
        assert list((tmp_path / "temporary").iterdir()) == []


def test_a_worker_that_sees_another_file_system_says_so(tmp_path):
    writing = Writing(str(tmp_path / "elsewhere" / ".shards.partial" / "0123"), MatrixReader(4), IngestSpec())
    with pytest.raises(DatasetError, match=r"does not see the folder .*elsewhere as the client does; pass shards=DIR"):
        write_partition(writing, 0, "partition 0", X, Y, None)


def test_a_task_that_is_repeated_writes_the_same_file_and_a_late_one_none(tmp_path):
    folder = tmp_path / "0123"
    writing = Writing(str(folder), MatrixReader(4), IngestSpec())
    folder.mkdir()
    first, again = (write_partition(writing, 7, "partition 7", X, Y, None).shards for _ in range(2))
    assert [path.name for path in folder.iterdir()] == ["part-00007-00000.arrow"]
    assert replace(again[0].info, modified=0) == replace(first[0].info, modified=0)
    folder.rename(tmp_path / "aside")
    with pytest.raises(DatasetError, match="does not see the folder"):
        write_partition(writing, 7, "partition 7", X, Y, None)
    assert not folder.exists()


def test_progress_is_told():
    told = []
    dataset_of(ARRAY, LABELS, listen=told.append)
    found = [event for event in told if isinstance(event, Progress)]
    assert [(event.rows, event.done, event.total) for event in found] == [(20, 1, 3), (40, 2, 3), (60, 3, 3)]


def test_dasks_own_scheduler_comes_first():
    names = set()

    def here(block):
        names.add(threading.current_thread().name)
        return block

    with dask.config.set(scheduler="sync"):
        dataset_of(ARRAY.map_blocks(here, meta=np.empty((0, 0)), dtype=float), LABELS)
    assert names == {threading.current_thread().name}


def peak(partitions: int) -> int:
    """Return the most memory that was in use at a time, of NumPy and Python, for so many partitions of 1.6 MB."""
    x = da.ones((partitions * 2000, 100), chunks=(2000, 100))
    y = da.arange(partitions * 2000, chunks=2000) % 2
    tracemalloc.start()
    try:
        dataset_of(x, y, scheduler="inline")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_rows():
    peak(1)
    few, many = peak(3), peak(30)
    assert many < few + 3_000_000  # all rows together are 48 MB
