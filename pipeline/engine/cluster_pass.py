"""One pass over shards on a Dask cluster, repeated after losses, until it is clear that they are no bad luck.

Every task goes through a run of shards. What all tasks need is placed on every worker before: mapped by workers next
door, sent once to others. One task that takes worker after worker with it is an error that names its shard, and memory
where Dask's nannies have said that it was memory.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from distributed import Future, KilledWorker
from distributed.comm import CommClosedError

from pipeline.engine.asking import ask
from pipeline.engine.cluster import AGAIN, Awaited, Cluster, LeftError, NoWorkersError, PausedError
from pipeline.engine.on_worker import REMEDY, TOPIC, copied, perform, touch
from pipeline.engine.sharing import MappedArray, share_in_memory
from pipeline.errors import EngineError, SieveError

# Plain choices. So many losses without a result between them end a pass; so do fewer at the same shard, which are
# hardly chance, and fewest where a nanny says that it was memory: the next worker has no more of it.
REPEATS, DEATHS_AT_A_SHARD, DEATHS_BY_MEMORY = 20, 8, 3
LOSSES = (KilledWorker, CommClosedError, CancelledError, asyncio.CancelledError)


class ClusterPass:
    """One pass over shards: what is shared with the workers for it, and what went wrong so far."""

    def __init__(self, cluster: Cluster, values: tuple[Any, ...]) -> None:
        self.cluster, self.client, self.values = cluster, cluster.client, values
        self.name = uuid.uuid4().hex
        self.shared: Sequence[Any] | None = None
        self.slots: list[str] = []
        self.held: dict[str, Future] = {}
        self.workers: set[str] = set()
        self.under_way: deque[tuple[Future, Awaited[Any]]] = deque()
        self.placed, self.losses = ExitStack(), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget()

    def each(self, task: Callable[..., Any], items: Sequence[Any], ahead: int) -> Iterator[Any]:
        """Yield the results in order."""
        k = 0
        while k < len(items):
            try:
                if self.shared is None:
                    self._share()
                for later in range(k + len(self.under_way), min(len(items), k + ahead)):
                    self.under_way.append(self._begun(task, items[later], later))
                who, found = self.under_way[0][1].result()
                self._expect(who)
            except (*LOSSES, LeftError) as error:
                self._lost(error)
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
            else:
                self.under_way.popleft()[0].release()
                k, self.losses = k + 1, 0
                yield found

    def _begun(self, task: Callable[..., Any], item: Any, k: int) -> tuple[Future, Awaited[Any]]:
        """Begin a task, on the worker that had the same run in the pass before if the workers are the same."""
        worker = self.slots[k % len(self.slots)]
        future = self._submit(worker, perform, task, item, self.name, self.held.get(worker, self.shared))
        return future, self.cluster.fetching(future)

    def _submit(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Future:
        """Begin a task on a worker, or elsewhere if that is gone."""
        return self.client.submit(function, *arguments, workers=[worker], allow_other_workers=True, pure=False)

    def _expect(self, who: str) -> None:
        """Raise EngineError if a result is from a worker with other versions, or a loss if nobody knows it any more."""
        if who not in self.cluster.admitted:
            self.cluster.admit()
            if who not in self.cluster.admitted:
                raise CommClosedError("a worker left that was not known yet")

    def _forget(self) -> None:
        """Let the workers drop what is shared, and what they were at."""
        for future, awaited in self.under_way:
            awaited.cancel()
            future.release()
        self.under_way.clear()
        for future in self.held.values():
            future.release()
        self.held.clear()
        self.shared = None
        self.placed.close()

    def _share(self) -> None:
        """Place what all tasks need on every worker."""
        workers = self.cluster.lately()
        self.workers.update(workers)
        most = max(self.cluster.known[worker].threads for worker in workers)
        self.slots = [
            worker for turn in range(most) for worker in sorted(workers) if turn < self.cluster.known[worker].threads
        ]
        if not self.cluster.neighbours.all:
            self.shared = self._sent(workers)
            return
        self.shared = self.placed.enter_context(share_in_memory(self.values))
        if any(isinstance(value, MappedArray) for value in self.shared):
            self.held = {worker: self._submit(worker, copied, self.shared) for worker in workers}

    def _sent(self, workers: list[str]) -> list[Future]:
        """Send every object to one worker, and from there to all.

        Dask's own broadcast never ends if a worker dies meanwhile; tasks that need the objects go elsewhere then.
        """
        if not self.values:
            return []
        try:
            sent = self.cluster.watched(lambda: self.client.scatter(list(self.values), hash=False))
        except (OSError, TimeoutError) as error:
            raise CommClosedError("a worker left while it was sent an object") from error
        for future in sent:
            self.placed.callback(future.release)
        self.cluster.done([self._submit(worker, touch, *sent) for worker in workers])
        return sent

    def _lost(self, loss: BaseException) -> None:
        """Begin what is under way again; raise EngineError if it was not chance, or is too much."""
        self._forget()
        self.losses += 1
        self._accuse(loss)
        if self.losses >= REPEATS:
            problem = f"the Dask cluster at {self.cluster.name} lost workers in {REPEATS} attempts at the same shards"
            raise EngineError(f"{problem}{self._last_seen()}; see their logs and {AGAIN}") from loss
        self.cluster.looked = 0.0

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
