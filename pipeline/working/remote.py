"""A host of rows on one worker of the cluster: it reads them from the shards itself, they never pass through here.

Every request says which rows it is about, by their numbers. A worker that holds them answers at once; one that is new,
because the last one died, reads them first. Either way the answer has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pipeline.blas import one_thread
from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.working.host import LocalHost
from pipeline.working.numbers import PackedNumbers
from pipeline.working.solve import SolvedRows, Task

if TYPE_CHECKING:
    from pipeline.engine.pinned import Here, Pinned

R = TypeVar("R")


class RemoteHost:
    """The client's side."""

    def __init__(self, pinned: Pinned, data: Dataset, wide: bool) -> None:
        self.pinned, self.build = pinned, partial(WorkerRows, data, wide)
        self.wanted = PackedNumbers.of(np.empty(0, np.int64))
        self.read = 0

    def hold(self, wanted: np.ndarray, lengths: np.ndarray | None = None) -> None:
        """Hold exactly the rows with these numbers; a worker looks up how long they are."""
        del lengths
        self.wanted = PackedNumbers.of(wanted)
        self._ask(_nothing)

    def release(self) -> None:
        """Forget all rows."""
        self.pinned.release()

    def add_to(self, out: np.ndarray, coefficients: np.ndarray) -> None:
        """Add sum a_i z_i over the rows held to ``out``."""
        out[:] = self._ask(_added, out, coefficients)

    def solve(self, task: Task) -> SolvedRows:
        """Solve over the rows held."""
        return self._ask(LocalHost.solve, task)

    def _ask(self, work: Callable[..., R], *arguments: Any) -> R:
        read, found = self.pinned.call(self.build, partial(WorkerRows.answer, work=work), self.wanted, *arguments)
        self.read += read
        return found


class WorkerRows:
    """The worker's side. When it is pickled, because Dask spills it to disk for want of memory, it forgets its rows."""

    def __init__(self, data: Dataset, wide: bool, here: Here) -> None:
        self.data, self.wide, self.here = data, wide, here
        shards = tuple(_Relieving(shard, here) for shard in data.shards)
        self.host = LocalHost(Engine("threads", here.threads), replace(data, shards=shards), wide)

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerRows, (self.data, self.wide, self.here)

    def answer(self, wanted: PackedNumbers, *arguments: Any, work: Callable[..., R]) -> tuple[int, R]:
        """Hold the rows wanted and return what ``work`` makes of them, after the nonzeros that were read."""
        with one_thread():
            before = self.host.read
            self.host.hold(wanted.unpacked())
            return self.host.read - before, work(self.host, *arguments)


@dataclass(frozen=True)
class _Relieving:
    """A shard that is read only after room was made for it: Dask counts mapped files as memory of the worker."""

    shard: Shard
    here: Here

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shard, name)

    def load(self) -> Rows:
        self.here.relieve()
        return self.shard.load()


def _nothing(host: LocalHost) -> None:
    """Want the rows only."""


def _added(host: LocalHost, out: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    total = out.copy()
    host.add_to(total, coefficients)
    return total
