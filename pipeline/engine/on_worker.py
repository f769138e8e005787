"""A function as a worker of a Dask cluster runs it: an error says which worker it was, and memory is looked after.

Dask counts the pages of mapped files as a worker's memory. Above 80 % of its limit a worker gets no more tasks, above
95 % it is killed, although the system could take these pages back at any time. So they are given back before that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from distributed import Scheduler, Worker, get_worker

from pipeline.engine.naming import named
from pipeline.errors import DatasetError, EngineError, SieveError
from pipeline.relief import let_go

TOPIC = "svmsieve"
SHARE_OF_LIMIT = 0.5
REMEDY = "give the workers more memory or ingest the data into smaller shards"


class OnWorker:
    """Calls ``function`` for a shard in the pass of this name; tells the scheduler first, in case it is fatal."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name = function, name
        self.__name__ = getattr(function, "__name__", "run")

    def __call__(self, shard: Any, *shared: Any) -> Any:
        """Call it, here on a worker."""
        worker = get_worker()
        worker.log_event(TOPIC, {"pass": self.name, "shard": named(shard), "id": worker.id})
        relieve(worker.memory_manager.memory_limit)
        try:
            with naming(worker):
                return self.function(shard, *shared)
        except MemoryError as error:
            raise EngineError(f"worker {worker.address} ran out of memory at {named(shard)}; {REMEDY}") from error


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
    if limit and _resident() > SHARE_OF_LIMIT * limit:
        let_go()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
