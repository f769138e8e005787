"""Big read-only objects (w has up to 30 million entries) that every task of a pass needs.

They must not travel inside each task. Within one process a task gets a reference; worker processes map one temporary
file; on a cluster the object is scattered once to every worker and tasks depend on it.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np


class Reference:
    """An object of this process, opaque to Dask: naming it costs nothing, however large it is."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.token = uuid.uuid4().hex

    def __dask_tokenize__(self) -> str:
        return self.token

    def get(self) -> Any:
        """Return the object."""
        return self.value


class MappedArray:
    """An array in a temporary file, mapped into memory by whichever process asks for it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __dask_tokenize__(self) -> str:
        return self.path

    def get(self) -> np.ndarray:
        """Return the array, read-only."""
        return _mapped(self.path)


@lru_cache(maxsize=8)
def _mapped(path: str) -> np.ndarray:
    return np.load(path, mmap_mode="r", allow_pickle=False)


@contextmanager
def as_references(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Share within this process."""
    yield tuple(Reference(value) for value in values)


@contextmanager
def as_files(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Share with other processes of this machine: arrays by file, anything else by value (it must be small)."""
    with tempfile.TemporaryDirectory(prefix="svmsieve-") as folder:
        shared: list[Any] = []
        for k, value in enumerate(values):
            if isinstance(value, np.ndarray):
                path = Path(folder) / f"{uuid.uuid4().hex}-{k}.npy"
                np.save(path, value, allow_pickle=False)
                shared.append(MappedArray(str(path)))
            else:
                shared.append(Reference(value))
        yield tuple(shared)


def resolved(shared: Any) -> Any:
    """Return the object behind whatever form it was shared in; a cluster has put it in place already."""
    return shared.get() if isinstance(shared, Reference | MappedArray) else shared
