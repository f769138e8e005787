"""The engine: run a function over every shard, on any backend, with results that do not depend on which.

A pass is a Dask bag of shards, and ``inline`` computes it as that. What it is worth is its definition: every shard
once, results in shard order, merged by a tree whose shape depends on the number of shards only (``tree``). The other
backends come to the same bits without building a graph for work of a millisecond: they go through ``runs`` of shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pipeline.engine.backends import SCHEDULERS, Backend, connect
from pipeline.engine.naming import nonzeros_of
from pipeline.engine.sharing import read_only
from pipeline.engine.tree import Merged, merged, runs, subtrees
from pipeline.errors import SpecError

if TYPE_CHECKING:
    from pipeline.engine.kept import Kept
    from pipeline.engine.pinned import Pinned

T = TypeVar("T")
R = TypeVar("R")

SOLVE_ON = ("client", "worker")
WORTH_SHARING = 30_000  # nonzeros: less are done in the time that it takes to wake a thread (about 30 us)
WORTH_A_RUN = 200_000  # nonzeros: a few times what handing over a result costs; smaller shards go in runs
RUNS_A_THREAD = 8  # at least, so that no thread waits long for the last
RUNS_A_WORKER = 2  # where results travel: one is fetched while the next is made, and who joins late finds something


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

    @cached_property
    def here(self) -> Engine:
        """The engine whose tasks run in this process: for rows that are wanted here, and need not travel."""
        return self if self.backend.in_process else Engine("threads")

    def reduce(
        self, function: Callable[..., R], shards: Sequence[T], merge: Callable[[Sequence[R]], R], *shared: Any
    ) -> R:
        """Return merge([function(shard, *shared) for shard in shards]), merged by a tree, its branches where tasks run.

        ``merge`` takes results in shard order, at most ``FAN_IN`` at a time, and returns one of the same kind; of a
        single one, that.
        """
        if not shards:
            raise ValueError("a pass needs at least one shard")
        branches = subtrees(shards, self.backend.branches)
        parts = self._each(Merged(self.backend.task(function), merge), branches, shared, len(branches))
        return merged(list(parts), merge)

    def stream(
        self, function: Callable[..., R], shards: Sequence[T], *shared: Any, window: int | None = None
    ) -> Iterator[R]:
        """Yield function(shard, *shared) in shard order.

        At most ``window`` results are in memory at a time (two a worker, unless they are small enough for more).
        """
        return self._each(self.backend.task(function), shards, shared, window or 2 * self.backend.workers)

    def each_here(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return function(item) of items in this process that are worth a task each, in order."""
        backend = self.here.backend
        if backend.workers == 1:  # no pass over shards, so no bag either
            return [function(item) for item in items]
        return list(backend.each(function, items, (), len(items)))

    def cores_here(self) -> int:
        """Return how many cores work that is no pass may use in this process just now."""
        return self.here.backend.workers

    def keeping(self, items: Sequence[Any]) -> Kept | None:
        """Return what keeps things with some items, from call to call; None where that is this machine."""
        if self.backend.name in SCHEDULERS:
            return None
        from pipeline.engine.cluster import Cluster  # noqa: PLC0415 - distributed is slow to import
        from pipeline.engine.kept import Kept  # noqa: PLC0415

        return Kept(self.backend, items) if isinstance(self.backend, Cluster) else None

    def tell(self, place: int, said: Any) -> None:
        """Say something at a place to all who use this engine together (``together``): here, to nobody."""

    def meet(self, place: int, said: T) -> list[T]:
        """Return what all say at a place: here, one alone. Who has told it there says it again."""
        del place
        return [said]

    def _each(
        self, task: Callable[..., Any], items: Sequence[Any], shared: tuple[Any, ...], window: int
    ) -> Iterator[Any]:
        """Yield task(item, *shared) in order: in this thread where sharing costs more than it gains."""
        backend, size = self.backend, nonzeros_of(list(items))
        if backend.in_process and (len(items) <= 1 or size < WORTH_SHARING):
            given = [read_only(value) for value in shared]
            return (task(item, *given) for item in items)
        if backend.in_process:
            parts = runs(items, max(RUNS_A_THREAD * backend.workers, size // WORTH_A_RUN))
            ahead = max(1, window * len(parts) // len(items))
        else:
            ahead = RUNS_A_WORKER * backend.workers
            parts = runs(items, max(ahead, -(-len(items) * ahead // max(ahead, window)))) if items else []
        return (result for run in backend.each(_Run(task), parts, shared, ahead) for result in run)

    def close(self) -> None:
        """Give back threads, processes or the connection."""
        self._others_end()
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._others_end()
            self.backend.abandon()

    def _others_end(self) -> None:
        if "here" in self.__dict__ and self.here is not self:
            self.here.backend.abandon()


def engine_for(
    engine: Engine | None, scheduler: str = "threads", workers: int | None = None, solve_on: str = "client"
) -> AbstractContextManager[Engine]:
    """Return the engine that is given, which stays open, or a new one."""
    return Engine(scheduler, workers, solve_on) if engine is None else nullcontext(engine)


class _Run:
    """A function of a run of items: ``task`` of each."""

    def __init__(self, task: Callable[..., Any]) -> None:
        self.task = task

    def __call__(self, run: Sequence[Any], *shared: Any) -> list[Any]:
        return [self.task(item, *shared) for item in run]
