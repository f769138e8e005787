"""The engine: run a function over every shard, on any backend, with results that do not depend on which.

A pass is a Dask bag with one partition a shard. Merges form a tree whose shape depends on the number of shards only and
whose leaves stand in shard order; so two runs are identical to the bit, whatever finished first. A single shard that is
here is handed to the function without a graph around it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import dask.bag as db

from pipeline.engine.backends import SCHEDULERS, Backend, connect
from pipeline.engine.shared import resolved
from pipeline.errors import SpecError

if TYPE_CHECKING:
    from pipeline.engine.pinned import Pinned

T = TypeVar("T")
R = TypeVar("R")

FAN_IN = 8
SOLVE_ON = ("client", "worker")


class Engine:
    """Runs passes. Use it as a context manager, or call ``close``.

    ``solve_on`` says where work goes that is no pass: to this process ("client"), or to the one ``pinned`` worker of a
    cluster ("worker").
    """

    def __init__(self, scheduler: str = "threads", workers: int | None = None, solve_on: str = "client") -> None:
        if solve_on not in SOLVE_ON:
            raise SpecError(f"unknown place to solve {solve_on!r}; there are {', '.join(SOLVE_ON)}")
        if solve_on == "worker" and scheduler in SCHEDULERS:
            raise SpecError(f"{scheduler} has no worker to solve on; give --scheduler an address, or --solve-on client")
        self.backend: Backend = connect(scheduler, workers)
        self.pinned: Pinned | None = None
        if solve_on == "worker":
            from pipeline.engine.pinned import Pinned  # noqa: PLC0415 - distributed is slow to import

            self.pinned = Pinned(self.backend)

    def reduce(
        self, function: Callable[..., R], shards: Sequence[T], merge: Callable[[Sequence[R]], R], *shared: Any
    ) -> R:
        """Return merge([function(shard, *shared) for shard in shards]), merged by a tree where the tasks run.

        ``merge`` takes results in shard order, at most ``FAN_IN`` at a time, and returns one of the same kind.
        """
        if not shards:
            raise ValueError("a pass needs at least one shard")
        if len(shards) == 1 and self.backend.in_process:
            return merge([function(shards[0], *shared)])
        with self.backend.sharing(shared) as begun:
            task = begun.task(function)
            return begun.compute(
                lambda *given: _bag(task, shards, *given).reduction(_only, _Merge(merge), split_every=FAN_IN)
            )

    def stream(
        self, function: Callable[..., R], shards: Sequence[T], *shared: Any, window: int | None = None
    ) -> Iterator[R]:
        """Yield function(shard, *shared) in shard order.

        At most ``window`` results are in memory at a time (two a worker, unless they are small enough for more).
        """
        if len(shards) == 1 and self.backend.in_process:
            yield function(shards[0], *shared)
            return
        window = window or 2 * self.backend.workers
        with self.backend.sharing(shared) as begun:
            task = begun.task(function)
            for first in range(0, len(shards), window):
                yield from begun.compute(partial(_bag, task, shards[first : first + window]))

    def close(self) -> None:
        """Give back threads, processes or the connection."""
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.backend.abandon()


def _bag(task: Callable[..., Any], shards: Sequence[Any], *shared: Any) -> db.Bag:
    return db.from_sequence(shards, npartitions=len(shards)).map_partitions(_Run(task), *shared)


class _Run:
    """Calls ``task`` for the one shard of a partition, under a name that no other pass has.

    A cluster that still remembers a task of the same name answers with its old result, or its old failure.
    """

    def __init__(self, task: Callable[..., Any]) -> None:
        self.task, self.token = task, uuid.uuid4().hex
        self.__name__ = getattr(task, "__name__", "run").strip("_<>")

    def __dask_tokenize__(self) -> str:
        return self.token

    def __call__(self, partition: Sequence[Any], *arguments: Any) -> list[Any]:
        shared = [resolved(argument) for argument in arguments]
        return [self.task(shard, *shared) for shard in partition]


class _Merge:
    """Calls ``merge`` with a list."""

    __name__ = "merge"

    def __init__(self, merge: Callable[[Sequence[Any]], Any]) -> None:
        self.merge, self.token = merge, uuid.uuid4().hex

    def __dask_tokenize__(self) -> str:
        return self.token

    def __call__(self, results: Any) -> Any:
        return self.merge(list(results))


def _only(partition: Sequence[Any]) -> Any:
    (result,) = partition
    return result
