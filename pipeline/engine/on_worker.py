"""A function as a worker of a Dask cluster runs it: an error says which worker it was, and memory is looked after.

Dask counts the pages of mapped files as a worker's memory. Above 80 % of its limit a worker gets no more tasks, above
95 % it is killed, although the system could take these pages back at any time. So they are given back before that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psutil
from distributed import Scheduler, Worker, get_worker

from pipeline.engine.naming import named, nonzeros_of
from pipeline.engine.sharing import MappedArray, read_only
from pipeline.errors import DatasetError, EngineError, SieveError
from pipeline.relief import let_go

TOPIC = "svmsieve"
WORTH_TELLING = 500_000  # nonzeros: some milliseconds of work, so that an event is little beside it
SHARE_OF_LIMIT = 0.5  # of a worker's memory; Dask pauses it at 0.8
REMEDY = "give the workers more memory or ingest the data into smaller shards"


class OnWorker:
    """Calls ``function`` for a shard, here on a worker, and tells the scheduler first, in case it is fatal.

    Of shards too small to be that, only now and then one is told of: telling takes as long as some 50,000 nonzeros.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, shard: Any, *shared: Any) -> Any:
        """Call it."""
        worker = get_worker()
        _run.untold += nonzeros_of(shard)
        if _run.untold >= WORTH_TELLING:
            _run.untold = 0
            worker.log_event(TOPIC, {"pass": _run.name, "shard": named(shard), "id": worker.id})
            relieve(worker.memory_manager.memory_limit)
        try:
            with naming(worker):
                return self.function(shard, *shared)
        except MemoryError as error:
            raise EngineError(f"worker {worker.address} ran out of memory at {named(shard)}; {REMEDY}") from error


class _Run(threading.local):
    """Which pass this thread of a worker is at, and how many nonzeros it has gone through without a word."""

    name, untold = "", 0


_run = _Run()


def perform(task: Callable[..., Any], item: Any, name: str, shared: Sequence[Any]) -> tuple[str, Any]:
    """Return what ``task`` makes of an item in the pass of this name, after the id of the worker that this is."""
    _run.name, _run.untold = name, WORTH_TELLING  # the first shard is told of
    return get_worker().id, task(item, *(read_only(value) for value in shared))


def copied(shared: Sequence[Any]) -> list[Any]:
    """Return what a neighbour shares as arrays of this process.

    Looking rows up in w is twice as quick in memory of one's own, which has large pages.
    """
    return [value.copied() if isinstance(value, MappedArray) else value for value in shared]


@contextmanager
def naming(worker: Worker) -> Iterator[None]:
    """Let an error say which worker it was."""
    try:
        yield
    except SieveError as error:
        hint = " (does it see the same files as the client?)" if isinstance(error, DatasetError) else ""
        error.args = (f"on worker {worker.address}{hint}: {error}",)
        raise


def touch(*_shared: Any) -> None:
    """Need something, so that it is fetched."""


class Known(NamedTuple):
    """What the scheduler knows of a worker: ``id`` is another one after a restart, ``silent`` the seconds since it
    last gave a sign of life, and ``memory`` its limit, 0 for none.
    """

    id: str
    status: str
    threads: int
    memory: int
    silent: float


def roll(dask_scheduler: Scheduler) -> dict[str, tuple[str, str, int, int, float]]:
    """Return what is known of every worker; runs on the scheduler."""
    now = time.time()
    return {
        each.address: (each.server_id, each.status.name, each.nthreads, each.memory_limit, now - each.last_seen)
        for each in dask_scheduler.workers.values()
    }


async def dismiss(workers: list[str], dask_scheduler: Scheduler) -> None:
    """Go on without workers that give no sign of life, as Dask does after five minutes; runs on the scheduler."""
    reason = f"svmsieve-silent-{time.time()}"
    await dask_scheduler.restart_workers(workers, wait_for_workers=False, on_error="return", stimulus_id=reason)


def relieve(limit: int | None) -> None:
    """Close mappings of shards, if much of a worker's memory is in use."""
    if limit and psutil.Process().memory_info().rss > SHARE_OF_LIMIT * limit:
        let_go()
