"""Where tasks run: here, in threads, in ``processes``, or on a Dask ``cluster``. One contract for all four."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from pipeline.cores import available_cores
from pipeline.engine.shared import as_references
from pipeline.errors import EngineError

SCHEDULERS = ("threads", "inline", "processes")


class Pass(Protocol):
    """A pass over shards that has begun: the shared objects are where the tasks will be."""

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of a shard as it is to be called there."""
        ...

    def compute(self, collection: Callable[..., Any]) -> Any:
        """Return the result of ``collection(*shared)``, a Dask collection."""
        ...


class Backend(Protocol):
    """What the engine needs of a place to run tasks."""

    name: str
    workers: int
    in_process: bool

    def sharing(self, values: tuple[Any, ...]) -> AbstractContextManager[Pass]:
        """Make big read-only objects available to every task, for the time of one pass."""
        ...

    def close(self) -> None:
        """Give back what was started."""
        ...

    def abandon(self) -> None:
        """Give back what was started after something went wrong: whoever hangs is not waited for."""
        ...


class Local(ABC):
    """What the backends of this machine have in common: nothing is lost but with the whole program."""

    def share(self, values: tuple[Any, ...]) -> AbstractContextManager[tuple[Any, ...]]:
        """Make big read-only objects available to every task; by reference unless a backend knows better."""
        return as_references(values)

    @abstractmethod
    def compute(self, collection: Any) -> Any:
        """Compute a Dask collection."""

    @contextmanager
    def sharing(self, values: tuple[Any, ...]) -> Iterator[Pass]:
        """Share for the time of one pass."""
        with self.share(values) as arguments:
            yield _Once(self, arguments)

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of a shard as it is to be called; as it is unless a backend knows better."""
        return function


class _Once:
    """A pass that is made once."""

    def __init__(self, backend: Local, arguments: tuple[Any, ...]) -> None:
        self.backend, self.arguments = backend, arguments

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.backend.task(function)

    def compute(self, collection: Callable[..., Any]) -> Any:
        return self.backend.compute(collection(*self.arguments))


class Inline(Local):
    """One task after the other in the calling thread; the easiest to debug."""

    name, workers, in_process = "inline", 1, True

    def compute(self, collection: Any) -> Any:
        """Compute in this thread."""
        return collection.compute(scheduler="sync")

    def close(self) -> None:
        """Nothing was started."""

    def abandon(self) -> None:
        """Nothing was started."""


class Threads(Local):
    """A pool of threads in this process: hot loops run without the GIL, and nothing is copied."""

    name, in_process = "threads", True

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or available_cores()
        self.pool = ThreadPoolExecutor(self.workers, "svmsieve")

    def compute(self, collection: Any) -> Any:
        """Compute in the pool."""
        return collection.compute(scheduler="threads", pool=self.pool)

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown(cancel_futures=True)

    def abandon(self) -> None:
        """End the threads when they have done what they are at, which may be never."""
        self.pool.shutdown(wait=False, cancel_futures=True)


def connect(scheduler: str = "threads", workers: int | None = None) -> Backend:
    """Return the backend for ``inline``, ``threads``, ``processes`` or the address of a scheduler."""
    if scheduler == "inline":
        return Inline()
    if scheduler == "threads":
        return Threads(workers)
    if scheduler == "processes":
        from pipeline.engine.processes import Processes  # noqa: PLC0415 - it imports this file

        return Processes(workers)
    if ":" in scheduler:
        from pipeline.engine.cluster import Cluster  # noqa: PLC0415 - distributed is slow to import

        return Cluster(scheduler)
    raise EngineError(
        f"unknown scheduler {scheduler!r}; use {', '.join(SCHEDULERS)} or an address tcp://host:8786 or tls://host:8786"
    )
