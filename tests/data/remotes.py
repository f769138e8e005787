"""A data set in a store in memory, as tests look at it."""

from __future__ import annotations

import threading
from pathlib import Path

from fsspec.implementations.memory import MemoryFileSystem

from pipeline.data.dataset import Dataset
from pipeline.data.remote import RemoteShard
from pipeline.data.shard_cache import shard_folder
from tests.formats import contents

URL = "memory://bucket/clicks"


class Downloads:
    """Counts what is downloaded; ``fault(number, path)`` is called before each download, from 1 on."""

    def __init__(self, monkeypatch) -> None:
        self.paths: list[str] = []
        self.fault = lambda number, path: None
        self.lock = threading.Lock()
        original = MemoryFileSystem.get_file

        def get_file(fs, rpath, lpath, **options):
            with self.lock:
                self.paths.append(rpath)
                number = len(self.paths)
            content = self.fault(number, rpath)
            if content is None:
                return original(fs, rpath, lpath, **options)
            return Path(lpath).write_bytes(content)

        monkeypatch.setattr(MemoryFileSystem, "get_file", get_file)


def same(one: Dataset, other: Dataset) -> None:
    a, b = contents(one), contents(other)
    assert a.x.tolist() == b.x.tolist()
    assert a.labels.tolist() == b.labels.tolist()
    assert one.fingerprint == other.fingerprint


def object_of(shard: RemoteShard) -> str:
    return f"/bucket/clicks/{shard.name}"


def cached() -> list[Path]:
    return sorted(path for path in shard_folder().iterdir() if path.is_file())
