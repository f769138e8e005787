"""Where tasks run: here, in threads, in processes, or on a Dask cluster (``cluster``). One contract for all four."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from pipeline.cores import available_cores
from pipeline.engine.shared import as_files, as_references, remove_files
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


class _Once:
    """A pass that is made once."""

    def __init__(self, backend: Local, arguments: tuple[Any, ...]) -> None:
        self.backend, self.arguments = backend, arguments

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

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


class Processes(Local):
    """A pool of fresh processes (spawned, so that no lock is inherited), kept from pass to pass."""

    name, in_process = "processes", False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or available_cores()
        self.pool = self._new_pool()

    def share(self, values: tuple[Any, ...]) -> AbstractContextManager[tuple[Any, ...]]:
        """Pass arrays in temporary files that every process maps."""
        return as_files(values)

    def compute(self, collection: Any) -> Any:
        """Compute in the pool, a task at a time (Dask would hand out six); a process that dies is an error."""
        try:
            return collection.compute(scheduler="processes", pool=self.pool, chunksize=1)
        except BrokenProcessPool as error:
            self.close()
            self.pool = self._new_pool()
            raise EngineError(
                "a worker process died (out of memory or killed); use fewer workers or threads"
            ) from error

    def close(self) -> None:
        """End the processes."""
        self.pool.shutdown(cancel_futures=True)

    def _new_pool(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, mp_context=context, initializer=_follow_parent)


def _follow_parent() -> None:
    """Leave Ctrl-C to the main process, and end when it ends, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        remove_files()
        os._exit(1)

    threading.Thread(target=follow, daemon=True, name="svmsieve-follow").start()


def connect(scheduler: str = "threads", workers: int | None = None) -> Backend:
    """Return the backend for ``inline``, ``threads``, ``processes`` or the address of a scheduler."""
    if scheduler == "inline":
        return Inline()
    if scheduler == "threads":
        return Threads(workers)
    if scheduler == "processes":
        return Processes(workers)
    if ":" in scheduler:
        from pipeline.engine.cluster import Cluster  # noqa: PLC0415 - distributed is slow to import

        return Cluster(scheduler)
    raise EngineError(
        f"unknown scheduler {scheduler!r}; use {', '.join(SCHEDULERS)} or an address tcp://host:8786 or tls://host:8786"
    )
