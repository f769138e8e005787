"""Fixtures and settings that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "svmsieve", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("svmsieve")

DEVELOPMENT_DATA = Path(os.environ.get("SVMSIEVE_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Keep tests away from the user's cache of downloads and ingested files."""
    monkeypatch.setenv("SVMSIEVE_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def no_word_of_compiling(monkeypatch):
    """Have what commands say in this process not depend on what was compiled before; tests/test_jit.py undoes it."""
    monkeypatch.setattr("pipeline.kernel_cache._Silence.over", True)


@pytest.fixture
def development_data():
    """The folder of real data sets; tests that need it are skipped where there is none."""
    if not DEVELOPMENT_DATA.is_dir():
        pytest.skip("the development data sets are not here")
    return DEVELOPMENT_DATA


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A cluster of real processes with TLS, without workers at first; one a module."""
    from tests.clusters import real_cluster  # noqa: PLC0415, for benchmarks import this file and do without Dask

    with real_cluster(tmp_path_factory.mktemp("cluster"), workers=0) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def watcher(running):
    """A client of that cluster."""
    with running.client() as client:
        yield client
