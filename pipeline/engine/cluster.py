"""The backend for a Dask cluster: connecting to it, and passes that survive what clusters do.

A pass changes nothing, so it can be repeated. Dask itself repeats tasks of workers that died. What it cannot bring back
(an array shared with workers that all died) is shared again and the tasks are repeated, with the same bits, as long as
there are workers. One task that takes worker after worker with it is not bad luck: it is an error that names its shard.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import dask
from dask.core import flatten, get_dependencies
from distributed import Client, Future, KilledWorker
from distributed.comm import CommClosedError

from pipeline.engine.connection import connected
from pipeline.engine.on_worker import REMEDY, OnWorker, named, touch
from pipeline.engine.versions import check_scheduler, check_workers
from pipeline.errors import EngineError, SieveError

SECONDS_FOR_WORKERS = 30.0
SECONDS_BETWEEN_LOOKS = 1.0
REPEATS = 20
LOSSES = (KilledWorker, CommClosedError, CancelledError, asyncio.CancelledError)
AGAIN = "run the same command again when it is back: finished steps stay"


class Cluster:
    """A Dask cluster by the address of its scheduler."""

    in_process = False

    def __init__(self, address: str) -> None:
        self.name = address
        self.client: Client = connected(address)
        self.admitted: set[str] = set()
        try:
            check_scheduler(self.client)
            self._await_workers()
            self.workers = max(1, sum(self._admit().values()))
        except BaseException:
            self.close()
            raise

    @contextmanager
    def sharing(self, values: tuple[Any, ...]) -> Iterator[Pass]:
        """Send objects once to every worker; they drop them when the pass is over."""
        begun = Pass(self, values)
        try:
            yield begun
        finally:
            begun.forget()

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as workers call it."""
        return OnWorker(function)

    def close(self) -> None:
        """Leave the cluster; it goes on without us, and forgets what we asked it to do."""
        self.client.close()

    def outcome(self, futures: list[Future]) -> list[Any]:
        """Wait for results and fetch them, as long as there is a scheduler and a worker to wait for."""

        async def fetched() -> list[Any]:
            return await self.client.gather(futures, asynchronous=True)

        waiting = asyncio.run_coroutine_threadsafe(fetched(), self.client.loop.asyncio_loop)
        try:
            while True:
                try:
                    return waiting.result(SECONDS_BETWEEN_LOOKS)
                except TimeoutError:
                    if waiting.done():  # a task's own
                        raise
                    self._expect_scheduler()
                    self._await_workers()
        finally:
            waiting.cancel()

    def start(self) -> list[str]:
        """Return the workers, all of which have our versions."""
        self._expect_scheduler()
        self._await_workers()
        return list(self._admit())

    def check(self) -> None:
        """Raise EngineError if a worker that has joined meanwhile has other versions than we have."""
        self._expect_scheduler()
        self._admit()

    def _admit(self) -> dict[str, int]:
        threads: dict[str, int] = self.client.nthreads()
        new = threads.keys() - self.admitted
        if new:
            self.admitted |= check_workers(self.client, new)
        return threads

    def _await_workers(self) -> None:
        end = time.monotonic() + SECONDS_FOR_WORKERS
        while not self.client.nthreads():
            if time.monotonic() > end:
                lost = "has lost all its workers (out of memory or killed)" if self.admitted else "has no workers"
                raise EngineError(f"the Dask cluster at {self.name} {lost}; start some and run the same command again")
            time.sleep(0.1)
            self._expect_scheduler()

    def _expect_scheduler(self) -> None:
        """Raise EngineError if the scheduler is gone; a connection that broke is mended by the client itself."""
        while self.client.status == "connecting":
            time.sleep(0.05)
        if self.client.status != "running":
            raise EngineError(f"the Dask scheduler at {self.name} is gone; {AGAIN}")


class Pass:
    """One pass over shards: what is shared with the workers for it, and what went wrong so far."""

    def __init__(self, cluster: Cluster, values: tuple[Any, ...]) -> None:
        self.cluster, self.client, self.values = cluster, cluster.client, values
        self.shared: list[Future] | None = None
        self.suspect: str | None = None

    def compute(self, collection: Callable[..., Any], shards: Sequence[Any]) -> Any:
        """Return the result of the Dask collection that is made from the shared objects, repeated after losses."""
        for _ in range(REPEATS):
            try:
                return self._compute(collection, shards)
            except LOSSES as error:
                loss: BaseException = error
                self.forget()
            except SieveError:
                raise
            except Exception:
                self.cluster.check()
                raise
        raise EngineError(
            f"the Dask cluster at {self.cluster.name} lost workers in {REPEATS} attempts at one pass; {AGAIN}"
        ) from loss

    def forget(self) -> None:
        """Let the workers drop what is shared."""
        for future in self.shared or []:
            future.release()
        self.shared = None

    def _compute(self, collection: Callable[..., Any], shards: Sequence[Any]) -> Any:
        workers = self.cluster.start()
        if self.shared is None:
            self._share(workers)
        (optimized,) = dask.optimize(collection(*(dask.delayed(future) for future in self.shared or [])))
        graph = dict(optimized.__dask_graph__())
        keys = list(flatten([optimized.__dask_keys__()]))
        futures = self.client.get(graph, keys, sync=False)
        try:
            results = self.cluster.outcome(futures)
        except KilledWorker as error:
            self._accuse(error, graph, shards)
            raise
        finally:
            for future in futures:
                future.release()
        self.cluster.check()
        finish, extra = optimized.__dask_postcompute__()
        return finish(results, *extra)

    def _share(self, workers: list[str]) -> None:
        """Send every object to one worker, and from there to all.

        Dask's own broadcast never ends if a worker dies meanwhile; tasks that need the objects go elsewhere then.
        """
        if not self.values:
            self.shared = []
            return
        try:
            self.shared = self.client.scatter(list(self.values), hash=False)
        except (OSError, TimeoutError) as error:
            raise CommClosedError("a worker left while it was sent an object") from error
        here = {"allow_other_workers": True, "pure": False}
        self.cluster.outcome([self.client.submit(touch, *self.shared, workers=[worker], **here) for worker in workers])

    def _accuse(self, error: KilledWorker, graph: dict[Any, Any], shards: Sequence[Any]) -> None:
        """Raise EngineError if the task that saw several workers die did so in an earlier attempt, too."""
        below = _shards_below(graph, error.task)
        suspect = named(shards[below[0]]) if len(below) == 1 else "a merge of results"
        if suspect == self.suspect:
            died = f"every worker that worked on {suspect} died, {2 * (error.allowed_failures + 1)} in all"
            raise EngineError(
                f"the Dask cluster at {self.cluster.name}: {died} (most likely out of memory); {REMEDY}"
            ) from error
        self.suspect = suspect


def _shards_below(graph: dict[Any, Any], task: Any) -> list[int]:
    """Return the numbers of the shards that a task of a bag's graph is made from."""
    found, seen, left = [], set(), [task]
    while left:
        key = left.pop()
        if key in seen or key not in graph:
            continue
        seen.add(key)
        if isinstance(key, tuple) and str(key[0]).startswith("from_sequence-"):
            found.append(key[1])
        left.extend(get_dependencies(graph, key))
    return sorted(found)
