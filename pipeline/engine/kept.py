"""Things that stay with the shards on a cluster: each worker keeps those of its own shards from call to call.

Neighbouring items make runs, one a thread of a worker. A run's keeper is the result of a task on its worker, and lives
as long as its future: it goes when the client lets go of it, or dies. Calls are tasks on that very worker, and what
they return is all that travels. A call may be repeated, and must have the same effect again.

When a worker is lost, or has no memory left (Dask gives it nothing to do, or spills its keeper to disk), what was kept
is lost: that is a ``KeptLostError``, and who asked makes all of it again, with another ``Kept``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from distributed import Future, get_worker
from distributed.comm import CommClosedError

from pipeline.engine.cluster import Cluster
from pipeline.engine.cluster_pass import ClusterPass
from pipeline.engine.on_worker import OnWorker, naming, perform
from pipeline.engine.sharing import read_only, share_in_memory
from pipeline.engine.tree import runs
from pipeline.errors import KeptLostError

R = TypeVar("R")

SECONDS_PAUSED = 30.0  # that a worker may be: as long as one is waited for


class Keeper:
    """Keeps one thing on a worker. When it is pickled, because Dask spills it to disk, it forgets it."""

    def __init__(self) -> None:
        self.thing: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Keeper, ()

    def found(self) -> Any:
        """Return what is kept."""
        if self.thing is None:
            raise KeptLostError("a worker has lost what it kept of its shards")
        return self.thing

    def call(self, function: Callable[..., R], shard: Any, *shared: Any) -> R:
        """Return function(shard, *shared), after memory was looked after."""
        return OnWorker(function)(shard, *shared)


class Kept:
    """The client's side: runs of items, whose workers they are, and a keeper for each."""

    def __init__(self, cluster: Cluster, items: Sequence[Any]) -> None:
        self.cluster, workers = cluster, sorted(cluster.present())
        threads = {worker: cluster.known[worker].threads for worker in workers}
        slots = [worker for turn in range(max(threads.values())) for worker in workers if turn < threads[worker]]
        self.runs = runs(items, len(slots))
        self.addresses = slots[: len(self.runs)]
        self.ids = {cluster.known[address].id for address in self.addresses}
        self.keepers: list[Future] = [
            cluster.client.submit(Keeper, workers=[address], allow_other_workers=False, pure=False)
            for address in self.addresses
        ]

    def memory(self, k: int) -> int:
        """Return the bytes that a run may use of its worker's limit, 0 for any number."""
        known = self.cluster.known[self.addresses[k]]
        return known.memory // self.addresses.count(self.addresses[k])

    def each(
        self,
        function: Callable[..., R],
        *arguments: Any,
        shared: tuple[Any, ...] = (),
        own: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[R]:
        """Return function(keeper, *arguments, *shared, *own[k]) of all runs, in order.

        ``shared`` are big objects that all need, ``own`` those of each run; arguments travel inside the tasks.
        """
        with _KeptPass(self, shared, own) as begun:
            return list(begun.each(_Call(function, arguments), range(len(self.runs)), len(self.runs)))

    def release(self) -> None:
        """Let the workers forget what they keep."""
        for keeper in self.keepers:
            keeper.release()
        self.keepers = []


class _KeptPass(ClusterPass):
    """A call of all keepers: repeated after losses of others, over when one of theirs is lost."""

    def __init__(self, kept: Kept, values: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> None:
        super().__init__(kept.cluster, values)
        self.kept, self.own = kept, own
        self.waiting_since = math.inf

    def _share(self) -> None:
        super()._share()
        self.slots = self.kept.addresses
        self._expect_all()

    def _begun(self, task: Callable[..., Any], item: Any, k: int) -> tuple[Future, Any]:
        worker = self.slots[k]
        given = self.held.get(worker, self.shared), self._own(worker, k), self.kept.keepers[k]
        here = {"workers": [worker], "allow_other_workers": False, "pure": False}
        future = self.client.submit(perform_kept, task, self.name, *given, **here)
        return future, self.cluster.fetching(future, self._watch)

    def _watch(self) -> None:
        """Give up on a worker that Dask gives nothing to do, for want of memory: what it keeps is in the way."""
        paused = [
            each for each in self.slots if getattr(self.cluster.known.get(each), "status", "running") != "running"
        ]
        self.waiting_since = min(self.waiting_since, time.monotonic()) if paused else math.inf
        if time.monotonic() - self.waiting_since > SECONDS_PAUSED:
            raise KeptLostError(f"worker {paused[0]} is paused, its memory being nearly used up")

    def _own(self, worker: str, k: int) -> Any:
        """Place what is a run's own on its worker."""
        if self.own is None:
            return ()
        mine = self.own[k]
        if self.cluster.neighbours.all:
            return self.placed.enter_context(share_in_memory(mine))
        try:
            sending = {"workers": [worker], "hash": False}
            sent = self.cluster.watched(lambda: self.client.scatter(list(mine), **sending))
        except (KeyError, OSError, TimeoutError) as error:
            raise CommClosedError("a worker left while it was sent an object") from error
        for future in sent:
            self.placed.callback(future.release)
        return sent

    def _expect(self, who: str) -> None:
        super()._expect(who)
        if who not in self.kept.ids:
            raise KeptLostError("a worker that kept rows is another one now")

    def _expect_all(self) -> None:
        if self.kept.ids - {each.id for each in self.cluster.known.values()}:
            raise KeptLostError("a worker that kept rows is gone")

    def _lost(self, loss: BaseException) -> None:
        super()._lost(loss)
        self.cluster.admit()
        self._expect_all()


class _Call:
    """A function of a keeper with what travels inside its tasks."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments

    def __call__(self, keeper: Keeper, *more: Any) -> Any:
        with naming(get_worker()):
            return self.function(keeper, *self.arguments, *more)


def perform_kept(
    task: Callable[..., Any], name: str, shared: Sequence[Any], own: Sequence[Any], keeper: Keeper
) -> tuple[str, Any]:
    """Return what ``task`` makes of a keeper and what it is given, after the id of the worker that this is."""
    return perform(task, keeper, name, [*shared, *(read_only(value) for value in own)])
