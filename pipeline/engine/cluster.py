"""The backend for a Dask cluster: connecting to it, and passes that survive what clusters do.

A pass changes nothing, so it can be repeated. Dask itself repeats tasks of workers that died. What it cannot bring back
(an array shared with workers that all died) is shared again and the tasks are repeated, with the same bits, as long as
there are workers (``cluster_pass``). A worker that gives no sign of life is not waited for: Dask would, for five
minutes.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from distributed import Client, Future, wait

from pipeline.engine.asking import ask, ask_scheduler
from pipeline.engine.connection import connected
from pipeline.engine.neighbours import Neighbours
from pipeline.engine.on_worker import REMEDY, Known, OnWorker, dismiss, roll
from pipeline.engine.versions import check_scheduler, check_workers
from pipeline.errors import EngineError, SieveWarning

T = TypeVar("T")

SECONDS_FOR_WORKERS = 30.0  # for one to come (back): a nanny starts a new one in a few
SECONDS_BETWEEN_LOOKS = 1.0  # at who is there: a question to the scheduler
SECONDS_OF_SILENCE, WORKERS_A_SECOND = 30.0, 20  # signs of life come every half second, fewer from many workers
SECONDS_TO_MEND = 30.0  # that the client has for its connection to the scheduler
AGAIN = "run the same command again: finished steps stay"
LIMIT_PASSED = "worker-restart-memory"  # what Dask's nannies tell when they end a worker for its memory


class Cluster:
    """A Dask cluster by the address of its scheduler."""

    in_process = False

    def __init__(self, address: str) -> None:
        self.name = address
        self.client: Client = connected(address)
        self.workers = 1
        self.known: dict[str, Known] = {}
        self.admitted: set[str] = set()
        self.dismissed: set[str] = set()
        self.seen, self.looked = False, 0.0
        self.neighbours = Neighbours()
        try:
            check_scheduler(self.client)
            self.present()
        except BaseException:
            self.close()
            raise

    @property
    def branches(self) -> int:
        """What branches return travels: few."""
        return 2 * self.workers

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as workers call it."""
        return OnWorker(function)

    def each(
        self, task: Callable[..., Any], items: Sequence[Any], shared: tuple[Any, ...], ahead: int
    ) -> Iterator[Any]:
        """Yield results in order, whatever becomes of the workers."""
        from pipeline.engine.cluster_pass import ClusterPass  # noqa: PLC0415 - it imports this file

        with ClusterPass(self, shared) as begun:
            yield from begun.each(task, items, ahead)

    def close(self) -> None:
        """Leave the cluster; it goes on without us, and forgets what we asked it to do."""
        self.client.close()
        self.neighbours.close()

    def abandon(self) -> None:
        """Leave the cluster: nobody here hangs."""
        self.close()

    def fetching(self, future: Future, watch: Callable[[], None] = lambda: None) -> Awaited[Any]:
        """Begin to fetch the result of a task, from its worker itself if that is next door.

        While it is waited for, ``watch`` is called after every look at the workers, and may raise.
        """
        direct = True if self.neighbours.all else None
        return Awaited(self, lambda: self.client.gather(future, asynchronous=True, direct=direct), watch)

    def done(self, futures: list[Future]) -> None:
        """Wait for tasks to end."""
        with self.client.as_current():
            self.watched(lambda: wait(futures))

    def admit(self) -> dict[str, str]:
        """Return every worker's status; raise EngineError if one that is new has other versions than we have.

        Workers that give no sign of life are dismissed, and those that do not answer are not admitted yet.
        """
        end = time.monotonic() + SECONDS_TO_MEND
        while self.client.status == "connecting" and time.monotonic() < end:  # the client mends its connection itself
            time.sleep(0.05)
        if self.client.status != "running":
            raise EngineError(f"the Dask scheduler at {self.name} is gone; start it and {AGAIN}")
        try:
            rolled = ask_scheduler(self.client, roll)
        except OSError:  # the scheduler has gone just now, as the client is about to notice
            return {}
        found = self._alive({address: Known(*facts) for address, facts in rolled.items()})
        self.admitted &= {each.id for each in found.values()}
        new = {address for address, each in found.items() if each.id not in self.admitted}
        if new:
            answered = check_workers(self.client, new)
            self.neighbours.meet(self.client, answered)
            self.admitted |= {found[address].id for address in answered}
        self.seen |= bool(self.admitted)
        self.known, self.workers = found, max(1, sum(each.threads for each in found.values()))
        self.looked = time.monotonic()
        return {address: each.status for address, each in found.items()}

    def starved(self) -> list[tuple[float, str, int]]:
        """Return which workers were ended because they passed their memory limit: when, who, with how many bytes."""
        events = ask(self.client, lambda: self.client.get_events(LIMIT_PASSED))
        return [(when, event["worker"], event["rss"]) for when, event in events]

    def _alive(self, found: dict[str, Known]) -> dict[str, Known]:
        """Return the workers without those that have given no sign of life for long, which are dismissed, once."""
        most = SECONDS_OF_SILENCE + len(found) / WORKERS_A_SECOND
        silent = {address: each for address, each in found.items() if each.silent > most}
        new = sorted(address for address, each in silent.items() if each.id not in self.dismissed)
        if new:
            self.dismissed |= {silent[address].id for address in new}
            ask_scheduler(self.client, dismiss, new, wait=False)
            who = f"worker{'s' if len(new) > 1 else ''} {', '.join(new)}"
            problem = f"no sign of life from {who} for {most:.0f} s (stopped, swapping or cut off)"
            warnings.warn(f"{problem}; going on without", SieveWarning, stacklevel=2)
        return {address: each for address, each in found.items() if address not in silent}

    def lately(self) -> list[str]:
        """Return the workers that took tasks a moment ago: a pass may be over before the scheduler has been asked."""
        if time.monotonic() - self.looked > SECONDS_BETWEEN_LOOKS:
            return self.present()
        return self._taking() or self.present()

    def present(self, enough: Callable[[], bool] = lambda: False) -> list[str]:
        """Return the workers that take tasks, at least one; wait for one if need be, unless that is enough."""
        end = time.monotonic() + SECONDS_FOR_WORKERS
        while True:
            found = self.admit()
            running = [worker for worker, status in found.items() if status == "running"]
            taking = self._taking() if found else []
            if taking or enough():
                return taking
            if time.monotonic() > end:
                where = f"the Dask cluster at {self.name}"
                if running:
                    problem = f"no worker of {where} answers (stopped, swapping or cut off)"
                    raise EngineError(f"{problem}; see to {', '.join(running)}")
                if found:
                    raise PausedError(f"all workers of {where} are paused: their memory is nearly used up", REMEDY)
                if not self.seen:
                    raise EngineError(f"{where} has no workers; start some")
                raise NoWorkersError(f"{where} has lost all its workers")
            time.sleep(0.1)

    def _taking(self) -> list[str]:
        """Return the workers that take tasks, as far as is known."""
        return [
            address for address, each in self.known.items() if each.status == "running" and each.id in self.admitted
        ]

    def watched(self, waiting: Callable[[], Awaitable[T]]) -> T:
        """Wait for something in Dask's loop, as long as there is a scheduler and a worker to wait for."""
        while True:
            with suppress(LeftError):
                return Awaited(self, waiting).result()


class Awaited(Generic[T]):
    """Something that happens in Dask's loop, from now on."""

    def __init__(
        self, cluster: Cluster, waiting: Callable[[], Awaitable[T]], watch: Callable[[], None] = lambda: None
    ) -> None:
        async def waited() -> T:
            return await waiting()

        self.cluster, self.known, self.watch = cluster, cluster.known, watch
        self.future = asyncio.run_coroutine_threadsafe(waited(), cluster.client.loop.asyncio_loop)

    def result(self) -> T:
        """Wait, as long as there is a scheduler and a worker to wait for; raise LeftError when a worker has left.

        Dask would try for half a minute to fetch from where nobody is, and keep what was meant for that worker.
        """
        try:
            while True:
                try:
                    return self.future.result(SECONDS_BETWEEN_LOOKS)
                except TimeoutError:
                    if self.future.done():  # just now, or a task itself has raised this
                        return self.future.result()
                    self.cluster.present(self.future.done)
                    if self.known.keys() - self.cluster.known.keys():
                        raise LeftError("a worker has left") from None
                    self.watch()
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Wait no longer."""
        self.future.cancel()


class LeftError(Exception):
    """A worker has left, and what is waited for may never come."""


class PausedError(EngineError):
    """Workers are there, and Dask gives none of them anything to do for want of memory."""

    def __str__(self) -> str:
        return "; ".join(self.args)


class NoWorkersError(EngineError):
    """Workers were there, and none is left."""
