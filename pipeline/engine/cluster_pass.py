"""One pass over shards on a Dask cluster, repeated after losses, until it is clear that they are no bad luck.

One task that takes worker after worker with it is an error that names its shard, and memory where Dask's nannies have
said that it was memory.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import dask
from dask.core import flatten
from distributed import Future, KilledWorker
from distributed.comm import CommClosedError

from pipeline.engine.asking import ask
from pipeline.engine.cluster import AGAIN, Cluster, NoWorkersError, PausedError
from pipeline.engine.on_worker import REMEDY, TOPIC, OnWorker, touch
from pipeline.errors import EngineError, SieveError

REPEATS, DEATHS_AT_A_SHARD, DEATHS_BY_MEMORY = 20, 8, 3
LOSSES = (KilledWorker, CommClosedError, CancelledError, asyncio.CancelledError)


class ClusterPass:
    """One pass over shards: what is shared with the workers for it, and what went wrong so far."""

    def __init__(self, cluster: Cluster, values: tuple[Any, ...]) -> None:
        self.cluster, self.client, self.values = cluster, cluster.client, values
        self.name = uuid.uuid4().hex
        self.shared: list[Future] | None = None
        self.workers: set[str] = set()

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
                self._accuse(error)
            except NoWorkersError as error:
                raise EngineError(f"{error}{self._last_seen()}; {REMEDY}, start them and {AGAIN}") from error
            except PausedError as error:
                places = sorted({shard for _, _, shard in self._last().values()})
                where = f", last at {' and '.join(places[:3])}" if places else ""
                raise PausedError(f"{error.args[0]}{where}", REMEDY) from error
            except SieveError:
                raise
            except Exception:
                self.cluster.admit()
                raise
        problem = f"the Dask cluster at {self.cluster.name} lost workers in {REPEATS} attempts at one pass"
        raise EngineError(f"{problem}{self._last_seen()}; see their logs and {AGAIN}") from loss

    def forget(self) -> None:
        """Let the workers drop what is shared."""
        for future in self.shared or []:
            future.release()
        self.shared = None

    def _compute(self, collection: Callable[..., Any]) -> Any:
        workers = self.cluster.present()
        self.workers.update(workers)
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
            self.shared = self.cluster.watched(lambda: self.client.scatter(list(self.values), hash=False))
        except (OSError, TimeoutError) as error:
            raise CommClosedError("a worker left while it was sent an object") from error
        here = {"allow_other_workers": True, "pure": False}
        self.cluster.done([self.client.submit(touch, *self.shared, workers=[worker], **here) for worker in workers])

    def _accuse(self, loss: BaseException) -> None:
        """Raise EngineError if it was for memory, or at the same shard, that too many workers died to be chance."""
        try:
            last = self._last()
            starved = self._starved(last)
        except OSError:  # the scheduler has gone, too
            self.cluster.admit()
            return
        if starved and (isinstance(loss, KilledWorker) or len(starved) >= DEATHS_BY_MEMORY):
            worker, used, shard = starved[-1]
            died = f", {len(starved)} workers so far" if len(starved) > 1 else ""
            problem = f"worker {worker} passed its memory limit (with {used / 1e6:,.0f} MB) {shard}{died}"
            raise EngineError(f"{problem}; {REMEDY}") from loss
        shard, died_there = self._suspect(last)
        if died_there >= DEATHS_AT_A_SHARD:
            problem = f"{died_there} workers of the Dask cluster at {self.cluster.name} died, each at {shard}"
            raise EngineError(f"{problem} (most likely out of memory); {REMEDY}") from loss

    def _last_seen(self) -> str:
        """Say why workers may have gone, and where most of them were."""
        try:
            last = self._last()
            starved, (shard, died) = self._starved(last), self._suspect(last)
        except OSError:  # the scheduler has gone, too
            return " (out of memory or killed)"
        if starved:
            return f" ({len(starved)} of them passed their memory limit, the last {starved[-1][2]})"
        return f" (out of memory or killed{f', {died} of them at {shard}' if died > 1 else ''})"

    def _last(self) -> dict[str, tuple[float, str, str]]:
        """Return when and where, and at which shard, every worker of this pass was last seen."""
        events = ask(self.client, lambda: self.client.get_events(TOPIC))
        mine = [(when, event) for when, event in events if event["pass"] == self.name]
        return {event["id"]: (when, event["worker"], event["shard"]) for when, event in mine}

    def _suspect(self, last: dict[str, tuple[float, str, str]]) -> tuple[str, int]:
        """Return the shard at which most workers that are gone were last seen in this pass, and how many."""
        self.cluster.admit()
        there = {each.id for each in self.cluster.known.values()}
        gone = Counter(shard for worker, (_, _, shard) in last.items() if worker not in there)
        return max(gone.items(), key=lambda item: item[1], default=("", 0))

    def _starved(self, last: dict[str, tuple[float, str, str]]) -> list[tuple[str, int, str]]:
        """Return the workers of this pass that passed their memory limit, what they used, and where they were."""
        found = []
        for when, worker, used in self.cluster.starved():
            before = [(then, shard) for then, address, shard in last.values() if address == worker and then <= when]
            if worker in self.workers:
                found.append((worker, used, f"at {max(before)[1]}" if before else "before its first shard"))
        return found
