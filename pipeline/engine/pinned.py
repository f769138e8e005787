"""An object on one worker of a Dask cluster, kept from call to call: for work that belongs where its data are.

It is the result of a task, and lives as long as its future: it goes when the client lets go of it, or dies. Nobody
relies on what it remembers. It can be built on any worker, and every call brings all that it needs: so when its worker
dies, another one is chosen and the call repeated.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from distributed import Future, KilledWorker, get_worker
from distributed.comm import CommClosedError

from pipeline.dataclass import dataclass
from pipeline.engine.backends import Backend
from pipeline.engine.cluster import AGAIN, SECONDS_FOR_WORKERS, Cluster, NoWorkersError
from pipeline.engine.on_worker import naming, relieve
from pipeline.errors import BudgetError, EngineError, SieveError

T = TypeVar("T")
R = TypeVar("R")

MOST_ATTEMPTS = 5  # then it is what they solve that workers are lost by
SHARE_OF_WORKER = 0.6  # of its memory limit: from 70 % on Dask takes measures
SECONDS_BETWEEN_LOOKS = 2.0  # at whether the worker is there, while its result is waited for
SECONDS_TO_SEND = 300.0  # what it found: vectors of all features, over any network
LOST = (KilledWorker, CommClosedError, CancelledError, asyncio.CancelledError, TimeoutError, MemoryError)


class Pinned:
    """Calls functions on one worker, with an object there as their first argument.

    Workers that fit are numbered from the one with most memory: ``turn`` says which of them it is.
    """

    def __init__(self, backend: Backend, turn: int = 0) -> None:
        assert isinstance(backend, Cluster)
        self.cluster, self.client, self.turn = backend, backend.client, turn
        self.need = 0
        self.address = ""
        self.kept: Future | None = None

    def another(self, turn: int) -> Pinned:
        """Return one for another object, on the worker whose turn it is."""
        return Pinned(self.cluster, turn)

    def reserve(self, need: int) -> None:
        """Choose a worker that may use ``need`` bytes, or say with both numbers that none may."""
        self.need = need
        self.address = self._choose(set(), patience=0.0)

    def call(self, build: Callable[[Here], T], function: Callable[..., R], *arguments: Any) -> R:
        """Return function(object, *arguments), where build(what the worker has) makes the object if there is none.

        The worker and all it knows may be lost at any moment: then all of this happens again on another.
        """
        lost: set[str] = set()
        for _ in range(MOST_ATTEMPTS):
            if lost:
                self.release()
                self.address = self._choose(lost, SECONDS_FOR_WORKERS)
            try:
                return self._attempt(build, function, arguments)
            except SieveError:
                raise
            except LOST as error:
                reason = error
                lost.add(self.address)
        raise EngineError(
            f"the worker that solves was lost {MOST_ATTEMPTS} times in a row, last {self.address} "
            f"({type(reason).__name__}; {self._why(lost)}); give workers more memory, or use --solve-on client"
        ) from reason

    def _why(self, lost: set[str]) -> str:
        starved = {worker: used for _, worker, used in self.cluster.starved() if worker in lost}
        told = ", ".join(f"{worker} with {used / 1e6:,.0f} MB" for worker, used in sorted(starved.items()))
        return f"the memory limit was passed: {told}" if told else "out of memory or killed"

    def release(self) -> None:
        """Let go of the object."""
        if self.kept is not None:
            self.kept.release()
            self.kept = None

    def _attempt(self, build: Callable[[Here], T], function: Callable[..., R], arguments: tuple[Any, ...]) -> R:
        here = {"workers": [self.address], "allow_other_workers": False, "pure": False}
        if self.kept is None:
            self.kept = self.client.submit(_build, build, **here)
        return self._result(self.client.submit(_run, function, self.kept, *self._send(arguments), **here))

    def _send(self, arguments: tuple[Any, ...]) -> list[Future]:
        """Send arrays and the like to the worker, apart from any task; they go when the call is over."""
        if not arguments:
            return []
        try:
            sending = {"workers": [self.address], "hash": False, "timeout": SECONDS_FOR_WORKERS}
            return self.cluster.watched(lambda: self.client.scatter(list(arguments), **sending))
        except (KeyError, OSError) as error:  # of the address: the worker went a moment ago, or takes nothing more
            raise CommClosedError from error

    def _result(self, future: Future) -> Any:
        """Wait for as long as the worker is there."""
        while not future.done():
            try:
                future.exception(timeout=SECONDS_BETWEEN_LOOKS)
            except TimeoutError:
                if self.address not in self._workers():
                    raise CommClosedError from None
        return future.result(timeout=SECONDS_TO_SEND)

    def _choose(self, lost: set[str], patience: float) -> str:
        """Return the worker whose turn it is, rather not one that was lost; wait for one if there is none."""
        end = time.monotonic() + patience
        while True:
            rooms = {address: SHARE_OF_WORKER * limit or math.inf for address, limit in self._workers().items()}
            fit = {address for address, room in rooms.items() if room >= self.need}
            if fit:
                best = sorted(fit - lost or fit, key=lambda address: (rooms[address], address), reverse=True)
                return best[self.turn % len(best)]
            if rooms and time.monotonic() >= end:
                raise BudgetError(
                    f"solving on a worker may take {self.need / 1e6:,.0f} MB, but the largest can give "
                    f"{max(rooms.values()) / 1e6:,.0f} MB ({SHARE_OF_WORKER:.0%} of its limit); "
                    "lower --memory, give workers more, or use --solve-on client"
                )
            time.sleep(0.1)

    def _workers(self) -> dict[str, int]:
        """Return the memory limits of the workers there are, 0 for none; wait for a worker if need be."""
        try:
            there = self.cluster.present()
        except NoWorkersError as error:
            raise EngineError(f"{error} (out of memory or killed); start some and {AGAIN}") from error
        return {address: self.cluster.known[address].memory for address in there}


@dataclass(frozen=True)
class Here:
    """What a worker has."""

    threads: int
    memory_limit: int | None

    def relieve(self) -> None:
        """Close mappings of shards, if much of the memory is in use."""
        relieve(self.memory_limit)


def _build(build: Callable[[Here], T]) -> T:
    worker = get_worker()
    return build(Here(worker.state.nthreads, worker.memory_manager.memory_limit))


def _run(function: Callable[..., R], *arguments: Any) -> R:
    with naming(get_worker()):
        return function(*arguments)
