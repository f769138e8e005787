"""Whoever gives no sign of life is not waited for: a stopped worker, a stopped scheduler, a worker over its memory."""

from __future__ import annotations

import os
import signal
import time
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from pipeline.engine import asking, cluster_pass
from pipeline.engine import cluster as cluster_module
from pipeline.engine.engine import Engine
from pipeline.errors import EngineError, SieveWarning
from tests.clusters import real_cluster, until

pytestmark = pytest.mark.attack


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(cluster_module, "SECONDS_FOR_WORKERS", 1.0)
    monkeypatch.setattr(asking, "SECONDS_TO_ANSWER", 3.0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, nursery):
    with real_cluster(tmp_path_factory.mktemp("cluster"), workers=3, allowed_failures=0, nursery=nursery) as cluster:
        yield cluster


def waiting(shard, w, folder):
    """Say who works on the shard, wait until told to go on, and return floats whose sum depends on the order."""
    (Path(folder) / f"at-{os.getpid()}").touch()
    until((Path(folder) / "go").exists)
    return np.random.default_rng(shard).standard_normal(4) * 10.0**shard * w[shard]


def added(parts):
    return reduce(np.add, parts)


def test_a_worker_that_stops_during_a_pass_is_left_behind(cluster, tmp_path, monkeypatch):
    """And whoever connects while it is stopped does not wait for it either."""
    w = np.linspace(0.1, 1, 9)
    stopped = cluster.workers.pop()
    with Engine("inline") as one, Engine(cluster.address) as engine:
        (tmp_path / "go").touch()
        right = one.reduce(waiting, range(9), added, w, str(tmp_path))
        assert engine.reduce(waiting, range(9), added, w, str(tmp_path)).tobytes() == right.tobytes()
        monkeypatch.setattr(cluster_module, "SECONDS_OF_SILENCE", 3.0)
        stopped.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        with pytest.warns(
            SieveWarning, match=r"no sign of life from worker tls://127\.0\.0\.1:\d+ for 3 s .*; going on"
        ):
            assert engine.reduce(waiting, range(9), added, w, str(tmp_path)).tobytes() == right.tobytes()
        assert time.monotonic() - begun < 25
        stopped.send_signal(signal.SIGCONT)
        until(lambda: stopped.poll() is not None, "whoever was left behind leaves")


def test_a_stopped_scheduler_is_one_line_soon(cluster, soon, tmp_path):
    (tmp_path / "go").touch()
    with Engine(cluster.address) as engine:
        cluster.scheduler.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(EngineError, match=r"^the Dask scheduler at tls://.* has not answered for 3 s \(sto"):
                engine.reduce(waiting, range(3), added, np.ones(3), str(tmp_path))
        finally:
            cluster.scheduler.send_signal(signal.SIGCONT)


def test_a_stopped_worker_does_not_keep_clients_out(cluster, soon):
    stopped = cluster.workers.pop()
    stopped.send_signal(signal.SIGSTOP)
    with Engine(cluster.address) as engine:
        assert engine.backend.present() != []
        assert len(engine.backend.admitted) == 1, "the other one"
    last = cluster.workers[-1]
    last.send_signal(signal.SIGSTOP)
    with pytest.raises(EngineError, match=r"^no worker of the Dask cluster .* answers \(stopped, .*see to tls"):
        Engine(cluster.address)
    last.send_signal(signal.SIGCONT)
    cluster.kill(last)
    stopped.kill()


def hoard(shard):
    """Take more and more memory."""
    kept = []
    while shard == 2:
        kept.append(np.ones(4_000_000))
        time.sleep(0.02)
    return [shard]


def hoard_shared(*_shared):
    hoard(2)


def test_a_worker_over_its_memory_limit_is_named_with_the_shard(cluster, monkeypatch):
    """Here its nanny starts it again; that the next one is another must not be missed."""
    monkeypatch.setattr(cluster_pass, "DEATHS_BY_MEMORY", 2)
    cluster.add_worker(nanny=True, options=["--memory-limit", "600MB"])
    expected = r"^worker tls://\S+ passed its memory limit \(with \d+ MB\) at shard 2(, \d workers so far)?; give the"
    with Engine(cluster.address) as engine, pytest.raises(EngineError, match=expected):
        engine.reduce(hoard, range(6), added)


def test_a_worker_over_its_memory_limit_before_any_shard(tmp_path, monkeypatch, nursery):
    """As one does that has room for little more than itself: what all tasks need is too much for it."""
    monkeypatch.setattr(cluster_pass, "touch", hoard_shared)
    monkeypatch.setattr(cluster_pass, "DEATHS_BY_MEMORY", 2)
    expected = r"^worker tls://\S+ passed its memory limit \(with \d+ MB\) before its first shard(, \d workers so far)?"
    with real_cluster(tmp_path, workers=0, allowed_failures=0, nursery=nursery) as alone:
        alone.add_worker(nanny=True, options=["--memory-limit", "400MB"])
        with Engine(alone.address) as engine, pytest.raises(EngineError, match=expected):
            engine.backend.neighbours.all = False
            engine.reduce(waiting, range(6), added, np.ones(6), str(tmp_path))
