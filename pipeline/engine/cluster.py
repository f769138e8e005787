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
from pipeline.engine.on_worker import REMEDY, TOPIC, OnWorker, roll, touch
from pipeline.engine.versions import check_scheduler, check_workers
from pipeline.errors import EngineError, SieveError

T = TypeVar("T")

SECONDS_FOR_WORKERS = 30.0
SECONDS_BETWEEN_LOOKS = 1.0
REPEATS, DEATHS_AT_A_SHARD = 20, 8
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

    def admit(self) -> dict[str, str]:
        """Return every worker's status; raise EngineError if one that is new has other versions than we have."""
        while self.client.status == "connecting":  # a connection that broke is mended by the client itself
            time.sleep(0.05)
        if self.client.status != "running":
            raise EngineError(f"the Dask scheduler at {self.name} is gone; start it and {AGAIN}")
        try:
            found: dict[str, tuple[str, int]] = self.client.run_on_scheduler(roll)
        except OSError:  # the scheduler has gone just now, as the client is about to notice
            return {}
        new = found.keys() - self.admitted
        if new:
            self.admitted |= check_workers(self.client, new)
        self.known, self.workers = set(found), max(1, sum(threads for _, threads in found.values()))
        return {worker: status for worker, (status, _) in found.items()}

    def present(self, enough: Callable[[], bool] = lambda: False) -> list[str]:
        """Return the workers that take tasks, at least one; wait for one if need be, unless that is enough."""
        end = time.monotonic() + SECONDS_FOR_WORKERS
        while True:
            found = self.admit()
            taking = [worker for worker, status in found.items() if status == "running"]
            if taking or enough():
                return taking
            if time.monotonic() > end:
                where = f"the Dask cluster at {self.name}"
                if found:
                    raise EngineError(f"all workers of {where} are paused: their memory is nearly used up; {REMEDY}")
                if not self.admitted:
                    raise EngineError(f"{where} has no workers; start some")
                raise NoWorkersError(f"{where} has lost all its workers")
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
                    self.present(future.done)
                    if known - self.known:
                        future.cancel()
                        future = begin()
                    known = self.known
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
                self._accuse()
            except NoWorkersError as error:
                raise EngineError(f"{error}{self._last_seen()}; {REMEDY}, start them and {AGAIN}") from error
            except SieveError:
                raise
            except Exception:
                self.cluster.admit()
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
        finally:
            for future in futures:
                future.release()
        self.cluster.admit()
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

    def _accuse(self) -> None:
        """Raise EngineError if it was at the same shard that too many workers died for that to be chance."""
        shard, died = self._suspect()
        if died >= DEATHS_AT_A_SHARD:
            problem = f"{died} workers of the Dask cluster at {self.cluster.name} died, each at {shard}"
            raise EngineError(f"{problem} (most likely out of memory); {REMEDY}")

    def _last_seen(self) -> str:
        """Say why workers may have gone, and where most of them were."""
        shard, died = self._suspect()
        return f" (out of memory or killed{f', {died} of them at {shard}' if died > 1 else ''})"

    def _suspect(self) -> tuple[str, int]:
        """Return the shard at which most workers that are gone were last seen in this pass, and how many."""
        try:
            events = self.client.get_events(TOPIC)
        except OSError:  # the scheduler has gone, too
            return "", 0
        last = {event["worker"]: event["shard"] for _, event in events if event["pass"] == self.name}
        gone = Counter(last[worker] for worker in last.keys() - self.cluster.admit().keys())
        return max(gone.items(), key=lambda item: item[1], default=("", 0))
