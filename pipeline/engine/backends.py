"""Where tasks run: in this thread, in threads, in processes, or on a Dask cluster. One small contract for all four."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import dask

from pipeline.engine.shared import as_files, as_references
from pipeline.errors import EngineError

SCHEDULERS = ("threads", "inline", "processes")


class Backend(Protocol):
    """What the engine needs of a place to run tasks."""

    name: str
    workers: int

    def share(self, values: tuple[Any, ...]) -> AbstractContextManager[tuple[Any, ...]]:
        """Make big read-only objects available to every task, for the time of one pass."""
        ...

    def compute(self, collection: Any) -> Any:
        """Compute a Dask collection."""
        ...

    def close(self) -> None:
        """Give back what was started."""
        ...


class Inline:
    """One task after the other in the calling thread; the easiest to debug."""

    name, workers = "inline", 1

    def share(self, values: tuple[Any, ...]) -> AbstractContextManager[tuple[Any, ...]]:
        """Pass references."""
        return as_references(values)

    def compute(self, collection: Any) -> Any:
        """Compute in this thread."""
        return collection.compute(scheduler="sync")

    def close(self) -> None:
        """Nothing was started."""


class Threads:
    """A pool of threads in this process: hot loops run without the GIL, and nothing is copied."""

    name = "threads"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or _cores()
        self.pool = ThreadPoolExecutor(self.workers, "svmsieve")

    def share(self, values: tuple[Any, ...]) -> AbstractContextManager[tuple[Any, ...]]:
        """Pass references."""
        return as_references(values)

    def compute(self, collection: Any) -> Any:
        """Compute in the pool."""
        return collection.compute(scheduler="threads", pool=self.pool)

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown()


class Processes:
    """A pool of fresh processes (spawned, so that no lock is inherited), kept from pass to pass."""

    name = "processes"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or _cores()
        self.pool = ProcessPoolExecutor(self.workers, mp_context=multiprocessing.get_context("spawn"))

    def share(self, values: tuple[Any, ...]) -> AbstractContextManager[tuple[Any, ...]]:
        """Pass arrays in temporary files that every process maps."""
        return as_files(values)

    def compute(self, collection: Any) -> Any:
        """Compute in the pool; a process that dies is an error, not a wait for ever."""
        try:
            return collection.compute(scheduler="processes", pool=self.pool)
        except BrokenProcessPool as error:
            raise EngineError(
                "a worker process died (out of memory or killed); use fewer workers or threads"
            ) from error

    def close(self) -> None:
        """End the processes."""
        self.pool.shutdown(cancel_futures=True)


class Cluster:
    """A Dask cluster by the address of its scheduler."""

    def __init__(self, address: str, timeout: str = "20s") -> None:
        from distributed import Client  # noqa: PLC0415 - slow to import, needed here only

        self.name = address
        try:
            self.client = Client(address, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise EngineError(f"no Dask scheduler answers at {address}; start one or correct --scheduler") from error
        self.workers = max(1, sum(self.client.nthreads().values()))

    @contextmanager
    def share(self, values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Scatter every object once to all workers; they drop it when the pass is over."""
        futures = [self.client.scatter(value, broadcast=True, hash=False) for value in values]
        try:
            yield tuple(dask.delayed(future) for future in futures)
        finally:
            for future in futures:
                future.release()

    def compute(self, collection: Any) -> Any:
        """Compute on the workers."""
        return self.client.compute(collection, sync=True)

    def close(self) -> None:
        """Leave the cluster; it goes on without us."""
        self.client.close()


def connect(scheduler: str = "threads", workers: int | None = None) -> Backend:
    """Return the backend for ``inline``, ``threads``, ``processes`` or the address of a scheduler."""
    if scheduler == "inline":
        return Inline()
    if scheduler == "threads":
        return Threads(workers)
    if scheduler == "processes":
        return Processes(workers)
    if "://" in scheduler or ":" in scheduler:
        return Cluster(scheduler)
    raise EngineError(f"unknown scheduler {scheduler!r}; use {', '.join(SCHEDULERS)} or an address tcp://host:8786")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
