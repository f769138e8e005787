"""Big read-only objects (w has up to 30 million entries) that every task of a pass needs.

They must not travel inside each task. Within one process a task gets a reference; worker processes map one temporary
file; on a cluster the object is scattered once to every worker and tasks depend on it.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import EngineError


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
        """Return the array; a process keeps it mapped until it sees another pass, whose files are in another folder."""
        if self.path not in _maps:
            for other in [path for path in _maps if Path(path).parent != Path(self.path).parent]:
                del _maps[other]
            _maps[self.path] = np.asarray(np.load(self.path, mmap_mode="r", allow_pickle=False))
        return _maps[self.path]


_maps: dict[str, np.ndarray] = {}


def remove_files() -> None:
    """Remove the files behind this process's maps: for a worker whose program was killed and cannot do it."""
    for folder in {Path(path).parent for path in list(_maps)}:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def as_references(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Share within this process."""
    yield tuple(Reference(value) for value in values)


@contextmanager
def as_files(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Share with other processes of this machine: arrays by file, anything else by value (it must be small)."""
    with tempfile.TemporaryDirectory(prefix="svmsieve-", ignore_cleanup_errors=True) as folder:
        yield tuple(_in_file(value, Path(folder) / f"{k}.npy") for k, value in enumerate(values))


def _in_file(value: Any, path: Path) -> Reference | MappedArray:
    if not isinstance(value, np.ndarray) or value.dtype.hasobject:
        return Reference(value)
    try:
        np.save(path, value, allow_pickle=False)
    except OSError as error:
        problem = f"{value.nbytes} bytes for the worker processes do not fit there ({error.strerror or error})"
        raise EngineError(f"{path.parent}: {problem}; set TMPDIR to a larger place or use threads") from error
    return MappedArray(str(path))


def resolved(shared: Any) -> Any:
    """Return the object behind whatever form it was shared in (a cluster has put it in place already).

    An array is read-only here on every backend: a task that writes to it fails, instead of spoiling other tasks' input.
    """
    value = shared.get() if isinstance(shared, Reference | MappedArray) else shared
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value
