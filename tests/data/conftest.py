"""Fixtures for data sets behind URLs."""

from __future__ import annotations

import fsspec
import pytest

from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.stores import located as stores
from pipeline.data.stores.transfer import copy_shards
from tests.data.remotes import URL, Downloads
from tests.trained import shards_of, sparse_rows


@pytest.fixture
def memory(monkeypatch):
    """An empty file system in memory, and no pause before another attempt."""
    monkeypatch.setattr(stores, "PAUSES", (0.0, 0.0))
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    yield fs
    fs.store.clear()


@pytest.fixture
def local(tmp_path) -> Dataset:
    """Four shards on this machine."""
    return shards_of(tmp_path, sparse_rows())


@pytest.fixture
def remote(memory, local) -> Dataset:
    """The same behind a URL."""
    copy_shards(local.path, URL)
    return open_shards(URL)


@pytest.fixture
def downloads(monkeypatch) -> Downloads:
    return Downloads(monkeypatch)
