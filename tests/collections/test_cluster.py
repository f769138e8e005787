"""Dask collections on a real TLS cluster: shards are written by the workers, and a killed one loses no row."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import pipeline
from pipeline.collections.door import dataset_of
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, DatasetError, EngineError
from pipeline.estimators import SieveSVC
from tests.collections.worlds import rows

X, Y = rows(400)
ARRAY = da.from_array(X, chunks=(25, 4))
LABELS = da.from_array(Y, chunks=25)
CSR = ARRAY.map_blocks(sp.csr_array)


@pytest.fixture(scope="module")
def here():
    """The same rows in memory."""
    return dataset_of(X, Y, bias=1.0)


@pytest.fixture
def engine(cluster):
    with Engine(cluster.address) as engine:
        yield engine


def test_workers_write_the_shards(engine, here, tmp_path):
    """Rows go through the workers' hands alone: the process of every partition is another than this one."""

    def elsewhere(block, me):
        assert os.getpid() != me
        return block

    x = CSR.map_blocks(elsewhere, os.getpid(), dtype=float, meta=sp.csr_array((0, 0)))
    data = dataset_of(x, LABELS, bias=1.0, out=tmp_path / "shards", engine=engine)
    assert data.fingerprint == here.fingerprint
    assert len(data.shards) == 16


def test_the_path_and_lazy_scores_on_the_cluster(cluster, here, tmp_path):
    settings = {"grid": [0.1, 1.0], "tol": 1e-6}
    run = pipeline.fit_path(CSR, LABELS, bias=1.0, shards=tmp_path / "shards", scheduler=cluster.address, **settings)
    local = pipeline.fit_path(CSR, LABELS, bias=1.0, **settings)
    for one, other in zip(run.steps, local.steps, strict=True):
        assert np.array_equal(one.w, other.w)
    scores = pipeline.lazy_scores(run.steps[-1], CSR)
    with cluster.client() as client:
        found = client.compute(scores).result()
    assert np.array_equal(found, scores.compute())


def test_a_killed_worker_loses_no_rows(cluster, engine, here, tmp_path):
    killed = []

    def kill(event) -> None:
        if event.done == 5 and not killed:
            killed.append(cluster.workers[0])
            cluster.kill(cluster.workers[0])

    def slowly(block):
        time.sleep(0.03)
        return block

    x = CSR.map_blocks(slowly, dtype=float, meta=sp.csr_array((0, 0)))
    data = dataset_of(x, LABELS, bias=1.0, out=tmp_path / "shards", engine=engine, listen=kill)
    assert killed
    assert data.fingerprint == here.fingerprint
    assert sorted(path.name for path in Path(data.path).iterdir())[:2] == ["manifest.json", "shard-00000.arrow"]
    assert len(list(Path(data.path).iterdir())) == 17


def test_what_a_user_persisted_is_computed_by_his_client(cluster, here):
    with cluster.client() as client, client.as_current():
        x, y = dask.persist(CSR, LABELS)
        data = dataset_of(x, y, bias=1.0)
        assert data.fingerprint == here.fingerprint
        del x, y
        gc.collect()


def test_an_error_on_a_worker_is_one_line_here_and_leaves_nothing(engine, tmp_path):
    x = X.copy()
    x[399, 3] = np.nan
    with pytest.raises(DataError, match="the Dask array, partition 15, row 24: the value of index 3 is nan"):
        dataset_of(da.from_array(x, chunks=(25, 4)), LABELS, out=tmp_path / "shards", engine=engine)
    assert list(tmp_path.iterdir()) == []


def test_a_user_function_that_fails_on_a_worker(engine, tmp_path):
    def fails(block):
        raise RuntimeError("the store said no")

    with pytest.raises(EngineError, match=r"cannot be computed \(RuntimeError: the store said no\)"):
        dataset_of(CSR.map_blocks(fails, dtype=float, meta=sp.csr_array((0, 0))), LABELS, engine=engine)


def test_workers_that_do_not_see_the_folder(engine, tmp_path, monkeypatch):
    """The client's own folder is gone for the workers, as on a machine without it."""
    monkeypatch.setattr("pipeline.collections.writing.Writing.__reduce__", _elsewhere, raising=False)
    with pytest.raises(DatasetError, match=r"does not see the folder /nowhere as the client does; pass shards=DIR"):
        dataset_of(CSR, LABELS, out=tmp_path / "shards", engine=engine)
    assert list(tmp_path.iterdir()) == []


def _elsewhere(self):
    return type(self), ("/nowhere/.shards.partial/0123", self.reader, self.spec)


def test_an_estimator_on_the_cluster(cluster):
    model = SieveSVC(C=0.5, tol=1e-6, scheduler=cluster.address).fit(CSR, LABELS)
    alone = SieveSVC(C=0.5, tol=1e-6).fit(X, Y)
    assert np.allclose(model.coef_, alone.coef_, atol=1e-2)
    with cluster.client() as client:
        labels = client.compute(model.predict(CSR)).result()
    assert np.array_equal(labels, model.predict(X))
