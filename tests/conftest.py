"""Fixtures and settings that all tests share."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.disk import fsync

settings.register_profile(
    "svmsieve", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("svmsieve")

DEVELOPMENT_DATA = Path(os.environ.get("SVMSIEVE_DATA", Path(__file__).parents[2] / "shared" / "data"))


# The files that take longest, so that no worker is left with one at the end. The first compiles the kernels; the three
# after it wait, or compile elsewhere: workers that began with the same kernels would compile them twice.
LONG = (
    "runs/test_durability.py",
    "engine/test_silence.py",
    "deploy/test_replay.py",
    "test_jit.py",
    "test_examples.py",
    "path/test_memory.py",
    "path/test_kernel_data.py",
    "path/test_cluster.py",
    "deploy/test_commands.py",
    "estimators/test_checks.py",
    "path/test_kernel.py",
    "engine/test_engine.py",
    "test_readme.py",
    "path/test_path.py",
    "report/test_pages.py",
    "path/test_tune.py",
    "data/test_durability.py",
    "solve/gram/test_gram_solvers.py",
    "data/test_svmlight.py",
    "path/test_classes.py",
    "test_startup.py",
    "engine/test_cluster.py",
    "nightly/test_killed.py",
    "data/test_memory.py",
    "test_paper.py",
    "nightly/test_classes.py",
    "path/test_asleep.py",
    "path/test_reference.py",
    "data/test_s3.py",
    "maths/test_safety.py",
    "data/test_compact.py",
    "passes/test_passes.py",
    "collections/test_cluster.py",
    "path/test_with_shards.py",
    "engine/test_addresses.py",
)


def pytest_configure():
    """Listen to interrupts, and let whoever is started do so: the background job of a shell ignores them at first."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    keep_bytecode()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # three processes on two cores: others would only wait, spinning


def keep_bytecode():
    """Have modules compiled once, not by every process: tests start hundreds, and each would take 0.4 s for ours."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_modifyitems(items):
    """Put the long files first; xdist gives the files away in this order."""
    rank = {Path(__file__).parent / name: k for k, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """Force nothing to disk in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


@pytest.fixture(scope="session")
def caches(tmp_path_factory):
    """Folders for caches; ``mktemp`` would look through all earlier ones for each test."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(k) for k in count())


@pytest.fixture(autouse=True)
def own_cache(caches, monkeypatch):
    """Keep tests away from the user's cache of downloads and ingested files."""
    cache = next(caches)
    cache.mkdir()
    monkeypatch.setenv("SVMSIEVE_CACHE", str(cache))


@pytest.fixture(autouse=True)
def no_word_of_compiling(monkeypatch):
    """Have what commands say in this process not depend on what was compiled before; tests/test_jit.py undoes it."""
    monkeypatch.setattr("pipeline.compiling._Silence.over", True)


@pytest.fixture
def tables_as_they_are(monkeypatch):
    """Have ``--columns`` be none where a test does not say: what it is about are tables of numbers as they are."""
    asked = importlib.import_module("pipeline.data.tables.asked")

    def with_columns(reading, columns, bias):
        return asked.with_columns(reading, asked.AS_THEY_ARE if columns == asked.AUTO else columns, bias)

    monkeypatch.setattr("pipeline.data.ingest.ingest.with_columns", with_columns)


@pytest.fixture
def development_data():
    """The folder of real data sets; tests that need it are skipped where there is none."""
    if not DEVELOPMENT_DATA.is_dir():
        pytest.skip("the development data sets are not here")
    return DEVELOPMENT_DATA


@pytest.fixture(scope="module", autouse=True)
def warm_processes():
    """Fork worker processes from one that has everything loaded; a module that is about them has this do nothing."""
    from tests.warm import WarmContext  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.engine.processes._Context", WarmContext)
        yield


# Benchmarks import this file and do without Dask, so what imports it does so when it is called


@pytest.fixture(scope="session")
def nursery():
    """Where the processes of clusters are forked from."""
    from tests.nursery import Nursery  # noqa: PLC0415

    found = Nursery()
    yield found
    found.close()


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory, nursery):
    """One cluster of real processes with TLS for all tests that leave its scheduler alone."""
    from tests.clusters import started  # noqa: PLC0415

    with started(tmp_path_factory.mktemp("cluster"), workers=0, nursery=nursery) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def running(shared_cluster):
    """The shared cluster, known to Dask here as long as a module runs; a test says how many workers it is to have, and
    afterwards it has none: idle ones cost more than a fork does.
    """
    from tests.clusters import known  # noqa: PLC0415

    with known(shared_cluster) as cluster:
        yield cluster
    shared_cluster.have_workers(0)


@pytest.fixture
def cluster(running):
    """A cluster of two workers, whatever earlier tests did to it."""
    running.have_workers(2)
    return running


@pytest.fixture(scope="module")
def watcher(running):
    """A client of that cluster."""
    with running.client() as client:
        yield client
