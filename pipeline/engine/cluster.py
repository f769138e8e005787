"""The backend for a Dask cluster: connecting to it, and passes that survive what clusters do.

A pass changes nothing, so it can be repeated. Dask itself repeats tasks of workers that died. What it cannot bring back
(an array shared with workers that all died) is shared again and the tasks are repeated, with the same bits, as long as
there are workers. One task that takes worker after worker with it is not bad luck: it is an error that names its shard.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, TypeVar

import dask
from dask.core import flatten
from distributed import Client, Future, KilledWorker, wait
from distributed.comm import CommClosedError

from pipeline.engine.connection import connected
from pipeline.engine.on_worker import REMEDY, TOPIC, OnWorker, touch
from pipeline.engine.versions import check_scheduler, check_workers
from pipeline.errors import EngineError, SieveError

T = TypeVar("T")

SECONDS_FOR_WORKERS = 30.0
SECONDS_BETWEEN_LOOKS = 1.0
REPEATS = 20
LOSSES = (KilledWorker, CommClosedError, CancelledError, asyncio.CancelledError)
AGAIN = "run the same command again: finished steps stay"


class Cluster:
    """A Dask cluster by the address of its scheduler."""

    in_process = False

    def __init__(self, address: str) -> None:
        self.name = address
        self.client: Client = connected(address)
        self.workers = 1
        self.known: set[str] = set()
        self.admitted: set[str] = set()
        try:
            check_scheduler(self.client)
            self.present()
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

    def close(self) -> None:
        """Leave the cluster; it goes on without us, and forgets what we asked it to do."""
        self.client.close()

    def fetched(self, futures: list[Future]) -> list[Any]:
        """Return the results of tasks, or raise the error of one."""
        return self._watched(lambda: self.client.gather(futures, asynchronous=True))

    def done(self, futures: list[Future]) -> None:
        """Wait for tasks to end."""
        with self.client.as_current():
            self._watched(lambda: wait(futures))

    def present(self) -> list[str]:
        """Return the workers, at least one, all of which have our versions; wait for one if need be."""
        end = time.monotonic() + SECONDS_FOR_WORKERS
        while True:
            while self.client.status == "connecting":  # a connection that broke is mended by the client itself
                time.sleep(0.05)
            if self.client.status != "running":
                raise EngineError(f"the Dask scheduler at {self.name} is gone; start it and {AGAIN}")
            try:
                found = self.client.nthreads()
            except OSError:  # the scheduler has gone just now, as the client is about to notice
                found = {}
            new = found.keys() - self.admitted
            if new:
                self.admitted |= check_workers(self.client, new)
            if found:
                self.known, self.workers = set(found), sum(found.values())
                return list(found)
            if time.monotonic() > end:
                if not self.admitted:
                    raise EngineError(f"the Dask cluster at {self.name} has no workers; start some")
                raise NoWorkersError(f"the Dask cluster at {self.name} has lost all its workers")
            time.sleep(0.1)

    def _watched(self, waiting: Callable[[], Awaitable[T]]) -> T:
        """Wait for something in Dask's loop, as long as there is a scheduler and a worker to wait for.

        When a worker has left, the wait begins anew: Dask would try for half a minute to fetch from where nobody is.
        """

        async def waited() -> T:
            return await waiting()

        def begin() -> concurrent.futures.Future[T]:
            return asyncio.run_coroutine_threadsafe(waited(), self.client.loop.asyncio_loop)

        future, known = begin(), self.known
        try:
            while True:
                try:
                    return future.result(SECONDS_BETWEEN_LOOKS)
                except TimeoutError:
                    if future.done():  # just now, or a task itself has raised this
                        return future.result()
                    if known - set(self.present()):
                        future.cancel()
                        future, known = begin(), self.known
        finally:
            future.cancel()


class NoWorkersError(EngineError):
    """Workers were there, and none is left."""


class Pass:
    """One pass over shards: what is shared with the workers for it, and what went wrong so far."""

    def __init__(self, cluster: Cluster, values: tuple[Any, ...]) -> None:
        self.cluster, self.client, self.values = cluster, cluster.client, values
        self.name = uuid.uuid4().hex
        self.shared: list[Future] | None = None

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as workers call it."""
        return OnWorker(function, self.name)

    def compute(self, collection: Callable[..., Any]) -> Any:
        """Return the result of the Dask collection that is made from the shared objects, repeated after losses."""
        for _ in range(REPEATS):
            try:
                return self._compute(collection)
            except LOSSES as error:
                loss: BaseException = error
                self.forget()
            except SieveError:
                raise
            except Exception:
                self.cluster.present()
                raise
        problem = f"the Dask cluster at {self.cluster.name} lost workers in {REPEATS} attempts at one pass"
        raise EngineError(f"{problem}; see their logs and {AGAIN}") from loss

    def forget(self) -> None:
        """Let the workers drop what is shared."""
        for future in self.shared or []:
            future.release()
        self.shared = None

    def _compute(self, collection: Callable[..., Any]) -> Any:
        workers = self.cluster.present()
        if self.shared is None:
            self._share(workers)
        (optimized,) = dask.optimize(collection(*(dask.delayed(future) for future in self.shared or [])))
        graph = dict(optimized.__dask_graph__())
        keys = list(flatten([optimized.__dask_keys__()]))
        futures = self.client.get(graph, keys, sync=False)
        try:
            results = self.cluster.fetched(futures)
        except KilledWorker as error:
            self._accuse(error)
            raise
        except NoWorkersError as error:
            shard, died = self._suspect()
            where = f", {died} of them at {shard}" if died > 1 else ""
            problem = f"{error} (out of memory or killed{where})"
            raise EngineError(f"{problem}; {REMEDY}, start them and {AGAIN}") from error
        finally:
            for future in futures:
                future.release()
        self.cluster.present()
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
        self.cluster.done([self.client.submit(touch, *self.shared, workers=[worker], **here) for worker in workers])

    def _accuse(self, error: KilledWorker) -> None:
        """Raise EngineError if it was always the same shard at which workers died, in more than one attempt."""
        shard, died = self._suspect()
        if died >= 2 * (error.allowed_failures + 1):
            problem = f"{died} workers of the Dask cluster at {self.cluster.name} died, each at {shard}"
            raise EngineError(f"{problem} (most likely out of memory); {REMEDY}") from error

    def _suspect(self) -> tuple[str, int]:
        """Return the shard at which most workers that are gone were last seen in this pass, and how many."""
        events = [event for _, event in self.client.get_events(TOPIC) if event["pass"] == self.name]
        last = {event["worker"]: event["shard"] for event in events}
        gone = Counter(last[worker] for worker in last.keys() - self.client.nthreads().keys())
        return max(gone.items(), key=lambda item: item[1], default=("", 0))
