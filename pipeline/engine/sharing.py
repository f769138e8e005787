"""Big read-only objects (w has up to 30 million entries) that every task of a pass needs.

They must not travel inside each task. Within one process a task gets them as they are; processes of this machine map
one piece of memory, which goes with the process that made it, killed or not; other machines are sent them once
(``cluster_pass``).
"""

from __future__ import annotations

import mmap
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import EngineError

SMALL = 4096  # bytes: less travels as quickly as what would tell where it is


@dataclass(frozen=True)
class MappedArray:
    """An array in the memory of another process of this machine: where the system shows it, and under what name."""

    path: str
    name: str
    dtype: str
    shape: tuple[int, ...]

    def get(self) -> np.ndarray:
        """Map it, for as long as the result is used."""
        stream = os.open(self.path, os.O_RDONLY)
        try:
            mapped = mmap.mmap(stream, 0, prot=mmap.PROT_READ)
        finally:
            os.close(stream)
        return np.frombuffer(mapped, self.dtype).reshape(self.shape)

    def copied(self) -> np.ndarray:
        """Read it into memory of this process."""
        made = np.empty(self.shape, self.dtype)
        with open(self.path, "rb", buffering=0) as stream:  # noqa: PTH123 - read straight into the array
            rest = made.view(np.uint8).reshape(-1).data
            while rest:
                rest = rest[stream.readinto(rest) :]
        return made


@contextmanager
def share_in_memory(values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Share with other processes of this machine: arrays in memory, anything else by value (it must be small)."""
    with ExitStack() as made:
        yield tuple(_placed(value, made) for value in values)


def _placed(value: Any, made: ExitStack) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.hasobject or value.nbytes <= SMALL:
        return value
    name = f"svmsieve-{uuid.uuid4().hex}"
    number = os.memfd_create(name)
    made.callback(os.close, number)
    rest = np.ascontiguousarray(value).view(np.uint8).reshape(-1).data
    try:
        while rest:
            rest = rest[os.write(number, rest) :]
    except OSError as error:
        problem = f"no memory for {value.nbytes} bytes that worker processes share ({error.strerror or error})"
        raise EngineError(f"{problem}; use threads, or a machine with more") from error
    return MappedArray(f"/proc/{os.getpid()}/fd/{number}", name, value.dtype.str, value.shape)


def read_only(shared: Any) -> Any:
    """Return the object behind whatever form it was shared in.

    An array is read-only here on every backend: a task that writes to it fails, instead of spoiling other tasks' input.
    """
    value = shared.get() if isinstance(shared, MappedArray) else shared
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value
