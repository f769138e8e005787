"""A data set in a store in memory, as tests look at it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from fsspec.implementations.memory import MemoryFileSystem

from pipeline.data.dataset import Dataset
from pipeline.data.stores.remote import RemoteShard
from pipeline.data.stores.shard_cache import shard_folder
from tests.formats import contents

URL = "memory://bucket/clicks"


class Downloads:
    """Counts the pieces of shards that are downloaded; ``fault(number, path)`` comes before each, from 1 on.

    It may raise, or return what arrives instead.
    """

    def __init__(self, monkeypatch) -> None:
        self.paths: list[str] = []
        self.fault: Callable[[int, str], bytes | None] = lambda number, path: None
        self.lock = threading.Lock()
        original = MemoryFileSystem.cat_file

        def cat_file(fs, path, start=None, end=None, **options):
            if not path.endswith(".arrow"):
                return original(fs, path, start, end, **options)
            with self.lock:
                self.paths.append(path)
                number = len(self.paths)
            content = self.fault(number, path)
            return original(fs, path, start, end, **options) if content is None else content

        monkeypatch.setattr(MemoryFileSystem, "cat_file", cat_file)


def same(one: Dataset, other: Dataset) -> None:
    a, b = contents(one), contents(other)
    assert a.x.tolist() == b.x.tolist()
    assert a.labels.tolist() == b.labels.tolist()
    assert one.fingerprint == other.fingerprint


def object_of(shard: RemoteShard) -> str:
    return f"/bucket/clicks/{shard.name}"


def cached() -> list[Path]:
    return sorted(path for path in shard_folder().iterdir() if path.is_file())
