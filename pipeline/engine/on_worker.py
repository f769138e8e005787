"""A function as a worker of a Dask cluster runs it: an error says which worker it was, and memory is looked after.

Dask counts the pages of mapped files as a worker's memory. Above 80 % of its limit a worker gets no more tasks, above
95 % it is killed, although the system could take these pages back at any time. So they are given back before that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Scheduler, Worker, get_worker

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
        worker.log_event(TOPIC, {"pass": self.name, "shard": named(shard)})
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


def named(shard: Any) -> str:
    """Return what people call a shard, or a piece of one, for an error."""
    whole = shard[0] if isinstance(shard, tuple) else shard
    return str(getattr(whole, "path", f"shard {whole}"))


def touch(*_shared: Any) -> None:
    """Need something, so that it is fetched."""


def roll(dask_scheduler: Scheduler) -> dict[str, tuple[str, int]]:
    """Return the status and the number of threads of every worker; runs on the scheduler."""
    return {worker.address: (worker.status.name, worker.nthreads) for worker in dask_scheduler.workers.values()}


def relieve(limit: int | None) -> None:
    """Close mappings of shards, if much of a worker's memory is in use."""
    if limit and _resident() > SHARE_OF_LIMIT * limit:
        let_go()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
