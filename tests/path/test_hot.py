"""Copies of rows that are read again and again: the same bits with them and without, and the shards are read less."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipeline
from pipeline.budget import limits_of, project
from pipeline.data.dataset import MappedShard
from pipeline.data.registry.synthetic import make
from pipeline.engine.engine import Engine
from pipeline.engine.together import Partner, Together
from pipeline.passes.gather import gather_rows
from pipeline.passes.hot import VARIABLE, HotRows
from pipeline.passes.products import certifying_products, some_products
from pipeline.path import soon
from pipeline.spec import PathSpec
from pipeline.working.facts import collect
from tests.watched import SVMSIEVE, watched
from tests.worlds import plain_world, write_shards

SETTINGS = {"epsilon": 0.01, "c_max": 3.0, "tol": 1e-4}
NAMES = {"run.json", "steps.jsonl", "models", "trained_rows.npy"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    world = plain_world(600, 12, seed=3)
    x = world.x.copy()
    x[150:370] = x[150:370].astype(np.float32)  # one shard of three has short values
    return write_shards(tmp_path_factory.mktemp("hot") / "shards", replace(world, x=x), [150, 370])


def lines(run: Path) -> list[dict]:
    """Return what steps.jsonl says, but for times and what follows from them."""
    found = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in ("seconds", "chain")} for line in found]


def trained(data, folder, monkeypatch, hot="1", **more):
    monkeypatch.setenv(VARIABLE, hot)
    run = pipeline.fit_path(data, out=folder, **SETTINGS, **more)
    return lines(folder), [(s.w.tobytes(), s.alpha.tobytes(), s.verdicts.tobytes()) for s in run.steps]


@pytest.fixture(scope="module")
def without(data, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return trained(data, tmp_path_factory.mktemp("hot") / "without", patch, hot="0")


@pytest.fixture
def copies(monkeypatch):
    """Return what bands arrive, as they do."""
    found = []

    def arrived(self):
        found.append(list(self._coming))
        whole(self)

    whole = HotRows.arrived
    monkeypatch.setattr(HotRows, "arrived", arrived)
    return found


@pytest.mark.parametrize("scheduler", ["threads", "inline", "processes"])
def test_the_same_bits_with_copies_and_without(data, without, tmp_path, monkeypatch, copies, scheduler):
    assert trained(data, tmp_path / "run", monkeypatch, scheduler=scheduler, workers=2) == without
    assert (len(copies) > 5) == (scheduler != "processes")


@pytest.mark.parametrize(
    ("bands", "drift", "most"), [((1e-3,), 0.0, 100), ((0.1, 0.2), 0.5, 3), ((4.0, 8.0), 8.0, 100)]
)
def test_the_same_bits_whatever_is_copied(data, without, tmp_path, monkeypatch, copies, bands, drift, most):
    monkeypatch.setattr(soon, "BANDS", bands)
    monkeypatch.setattr(soon, "DRIFT", drift)
    monkeypatch.setattr(soon, "MOST_BANDS", most)
    monkeypatch.setattr(soon, "LEAST_MISSED", 0.0)
    monkeypatch.setattr(soon, "pays", lambda *about: True)
    assert trained(data, tmp_path / "run", monkeypatch) == without
    assert len(copies) > 2


def test_shards_are_read_less(data, tmp_path, monkeypatch):
    loads = []

    def load(self):
        loads.append(self)
        return whole(self)

    whole, counts = MappedShard.load, []
    monkeypatch.setattr(MappedShard, "load", load)
    for hot in "01":
        loads.clear()
        found, _ = trained(data, tmp_path / hot, monkeypatch, hot)
        counts.append(len(loads))
    full = 3 * sum(line["read"] == 1.0 for line in found)
    assert counts[1] - full < 0.5 * (counts[0] - full)


@pytest.mark.parametrize("steps", [11, 12, 20])
def test_a_run_goes_on_to_the_same_bits(data, without, tmp_path, monkeypatch, steps):
    def listen(event):
        if getattr(event, "done", False):
            ended.append(event)
            if len(ended) == steps:
                raise KeyboardInterrupt

    found = []
    for hot in "01":
        ended = []
        with pytest.raises(KeyboardInterrupt):
            trained(data, tmp_path / hot, monkeypatch, hot, listen=listen)
        found.append(trained(data, tmp_path / hot, monkeypatch, hot))
    assert found[0] == found[1]  # what had been gathered is read again, so that ``passes`` is not that of one go
    assert found[1][1] == without[1]
    assert [{path.name for path in (tmp_path / hot).iterdir()} for hot in "01"] == [NAMES, NAMES]


@pytest.mark.parametrize("after", [0, 1, 4])
def test_a_full_disk_means_fewer_copies(data, without, tmp_path, monkeypatch, copies, after):
    calls = []

    def full(*about):
        calls.append(about)
        if len(calls) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*about)

    real = os.posix_fallocate
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert trained(data, tmp_path / "run", monkeypatch) == without
    assert len(calls) > after
    assert sum(map(len, copies)) == max(0, after - 1)


def test_models_are_left_room_on_the_disk(data, without, tmp_path, monkeypatch, copies):
    monkeypatch.setattr("pipeline.passes.hot.SHARE_OF_FREE", 0.0)
    assert trained(data, tmp_path / "run", monkeypatch) == without
    assert not any(copies)


@given(seed=st.integers(0, 2**32 - 1), hot=st.floats(0, 1), wanted=st.floats(0, 1), full=st.booleans())
def test_any_rows_may_be_hot(data, tmp_path_factory, seed, hot, wanted, full):
    rng, folder = np.random.default_rng(seed), tmp_path_factory.getbasetemp()
    chosen = rng.random(data.n_rows) < wanted
    vectors = list(rng.standard_normal((int(rng.integers(1, 4)), data.n_features)))
    w_norm = float(np.linalg.norm(vectors[0])) * 10.0 ** rng.integers(0, 12)  # so that rows are near the margin
    with Engine("threads", 2) as engine:
        state = collect(engine, data, PathSpec(), None)
        copies = HotRows(data, folder, state.lengths, state.wide)
        for band in range(1, int(rng.integers(2, 5))):
            copies.marks[(copies.marks == 0) & (rng.random(data.n_rows) < hot)] = band
            copies.expect()
            if full and copies.expected:
                out = [np.empty(data.n_rows) for _ in vectors]
                for _ in certifying_products(engine, data, vectors, out, w_norm, copies):
                    pass
                assert not copies.expected
            else:
                copies.copy_all(engine)
        found, plain = (list(some_products(engine, data, vectors, chosen, w_norm, each)) for each in (copies, None))
        found.sort(key=lambda each: each[0][0])  # they may come backwards
        assert len(found) == len(plain)
        for (rows, products, near), (others, same, slacks) in zip(found, plain, strict=True):
            assert rows.tobytes() == others.tobytes()
            assert [p.tobytes() for p in products] == [p.tobytes() for p in same]
            for name in ("rows", "slack", "error"):
                assert getattr(near, name).tobytes() == getattr(slacks, name).tobytes()
        rows = np.flatnonzero(chosen)
        one, other = (gather_rows(engine, data, rows, state.lengths[rows], True, each) for each in (copies, None))
    for name in ("labels", "norms", "rows"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    for name in ("indptr", "indices", "data"):
        assert getattr(one.x, name).tobytes() == getattr(other.x, name).tobytes()


def test_only_data_beyond_the_page_cache_are_copied(data, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with Engine("threads", 2) as engine, Engine("processes", 2) as others:
        state = collect(engine, data, PathSpec(), None)
        budget = project(data.n_rows, data.n_features, 10**9, reads_less=True)
        about = data, state, budget, lambda: tmp_path

        assert soon.hot_rows(engine, *about) is None
        used = budget.used(data.n_rows, 12 * data.nnz + 64 * data.n_rows)
        monkeypatch.setattr(soon, "machine_memory", lambda: used + data.bytes)
        assert soon.hot_rows(engine, *about) is None
        monkeypatch.setattr(soon, "machine_memory", lambda: used + data.bytes - 1)
        assert soon.hot_rows(engine, *about) is not None
        assert soon.hot_rows(others, *about) is None
        assert soon.hot_rows(Partner(Together(engine), 0, None), *about) is None
        assert soon.hot_rows(engine, data, state, replace(budget, reads_less=False), lambda: tmp_path) is None
        monkeypatch.setenv(VARIABLE, "0")
        assert soon.hot_rows(engine, *about) is None


def test_the_group_of_a_process_and_those_above_it_limit_its_memory():
    one = [str(path) for path in limits_of("5:cpu,memory:/a/b\n2:cpuset:/c\n")]
    assert one == [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    two = [str(path) for path in limits_of("0::/x\n")]
    assert two[:2] == ["/sys/fs/cgroup/x/memory.max", "/sys/fs/cgroup/memory.max"]
    assert len(list(limits_of(""))) == 2


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_copies_are_no_memory_of_the_process(tmp_path, monkeypatch):
    make("url-like", tmp_path / "few", scale=0.02, rows=2000)
    make("url-like", tmp_path / "many", scale=0.02, rows=100_000)
    peaks = {}
    for rows, hot in (("few", "1"), ("many", "0"), ("many", "1")):  # few: it may compile, which takes memory
        monkeypatch.setenv(VARIABLE, hot)
        run = tmp_path / f"{rows} {hot}"
        settings = ("--memory", "400MB", "--c-max", "1e-3", "-q")
        found = watched(*SVMSIEVE, "path", str(tmp_path / rows), "--out", str(run), *settings)
        assert found.code == 0, found.stderr
        peaks[rows, hot] = found.peak
        assert rows == "few" or sum(line["read"] < 1.0 for line in lines(run)) > 10
    assert peaks["many", "1"] <= 400_000_000
    assert peaks["many", "1"] < peaks["many", "0"] + 25_000_000
