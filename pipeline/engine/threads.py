"""Threads of this process: hot loops run without the GIL, nothing is copied, and a pass costs no graph.

The threads of a pass take the next item (a shard, or a run of small ones) from one counter until there is none.
Measured on top of the kernels, for 231 shards of 12,000 nonzeros: 18 microseconds a shard, 7 of them to look the shard
up. As Dask graphs 5,000 shards of one row took 2.5 s of CPU, half a millisecond each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from pipeline.cores import available_cores
from pipeline.engine.sharing import read_only


class Threads:
    """A pool of threads."""

    name, in_process = "threads", True

    def __init__(self, workers: int | None) -> None:
        self.workers = workers or available_cores()
        self.pool = ThreadPoolExecutor(self.workers, "svmsieve")

    @property
    def branches(self) -> int:
        """Results stay where they are: many branches, so that no thread waits long for the last."""
        return 8 * self.workers

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as it is."""
        return function

    def each(
        self, task: Callable[..., Any], items: Sequence[Any], shared: tuple[Any, ...], ahead: int
    ) -> Iterator[Any]:
        """Yield results in order while the threads go on; the first error ends the pass."""
        going = _Going(task, items, [read_only(value) for value in shared], ahead)
        for _ in range(min(self.workers, len(items))):
            self.pool.submit(going.work)
        try:
            for k in range(len(items)):
                yield going.taken(k)
                going.room.release()
        finally:
            going.stop(self.workers)

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown(cancel_futures=True)

    def abandon(self) -> None:
        """End the threads when they have done what they are at, which may be never."""
        self.pool.shutdown(wait=False, cancel_futures=True)


class _Going:
    """A pass under way: which item is next, and how far the threads may be ahead of who takes the results."""

    def __init__(self, task: Callable[..., Any], items: Sequence[Any], shared: list[Any], ahead: int) -> None:
        self.task, self.items, self.shared = task, items, shared
        self.results: dict[int, Future[Any]] = {k: Future() for k in range(len(items))}
        self.next = iter(range(len(items)))  # taking from it is one step of the interpreter
        self.room = threading.Semaphore(ahead)
        self.stopped = False

    def work(self) -> None:
        """Do one item after the other; runs in every thread of the pass."""
        while True:
            self.room.acquire()
            if self.stopped or (k := next(self.next, None)) is None:
                return
            result = self.results[k]
            try:
                result.set_result(self.task(self.items[k], *self.shared))
            except BaseException as error:
                self.stopped = True
                result.set_exception(error)

    def taken(self, k: int) -> Any:
        """Wait for a result, and forget it."""
        found = self.results[k].result()
        del self.results[k]
        return found

    def stop(self, threads: int) -> None:
        """Let the threads end after what they are at."""
        self.stopped = True
        self.room.release(threads)
