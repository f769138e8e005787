"""Members of one engine: each goes its own way in a thread of its own, and one pass serves all that wait for one.

    member   computes, with a core of its own -> asks for a pass and lets go of the core -> takes its results as they
             come -> goes on when a core is free
    driver   as soon as a core has nobody to use it, makes one pass for all members that wait

Who waits together is a matter of chance and changes nothing: a pass gives every member the bits that it would have got
alone. A function of a shard may have a form for several members at once (``merges``); else the shard is looked up once,
and each member's function called in turn. Results are handed on one shard at a time, so that no member holds more of
them than alone; while it takes them a member must not ask for anything else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.cores import available_cores
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine

if TYPE_CHECKING:
    from pipeline.engine.pinned import Pinned

T = TypeVar("T")
R = TypeVar("R")
Several = tuple[Callable[..., Any], tuple[Any, ...]]

SECONDS_BETWEEN_LOOKS = 0.1  # at whether who is waited for has given up
_forms: dict[Callable[..., Any], Callable[[list[tuple[Any, ...]]], Several]] = {}


def merges(function: Callable[..., Any]) -> Callable[[T], T]:
    """Register the form that a function of a shard has for several members.

    Given what each member shares with its tasks, it returns a function of the members' shards (a tuple: the same rows
    as each sees them) with what that shares; the function returns a list, each member's result.
    """

    def register(form: T) -> T:
        _forms[function] = form  # type: ignore[assignment]
        return form

    return register


class PartnerEndedError(Exception):
    """Another member has failed, or the command was told to end: this one need not go on."""


@dataclass(eq=False)
class _Ask:
    """What a member waits for: a pass over shards, whose results are merged if there is a ``merge``."""

    function: Callable[..., Any]
    shards: Sequence[Any]
    shared: tuple[Any, ...]
    window: int | None = None
    merge: Callable[[Sequence[Any]], Any] | None = None
    closed: bool = False
    results: Queue[tuple[bool, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.results = Queue(max(2, self.window or 0))

    @property
    def place(self) -> tuple[Any, ...]:
        """What passes must have in common to be made as one: the shards below any view, and what becomes of results."""
        return self.merge is None, *(id(getattr(shard, "base", shard)) for shard in self.shards)

    def give(self, item: tuple[bool, Any]) -> None:
        """Hand a result over, or (False, error); the member takes it, or has given up."""
        while not self.closed:
            try:
                return self.results.put(item, timeout=SECONDS_BETWEEN_LOOKS)
            except Full:
                continue
        return None


class Partner(Engine):
    """An engine for one of several: what is asked of it is done for all that ask for the same."""

    def __init__(self, together: Together, number: int, pinned: Pinned | None) -> None:
        self.together, self.number, self.pinned = together, number, pinned
        self.backend, self.here = together.engine.backend, together.engine.here

    def stream(
        self, function: Callable[..., R], shards: Sequence[T], *shared: Any, window: int | None = None
    ) -> Iterator[R]:
        """Yield function(shard, *shared) in shard order."""
        if not shards:
            return iter(())
        return self.together.results(_Ask(function, shards, shared, window))

    def reduce(
        self, function: Callable[..., R], shards: Sequence[T], merge: Callable[[Sequence[R]], R], *shared: Any
    ) -> R:
        """Return the results of all shards, merged by the tree."""
        if not shards:
            raise ValueError("a pass needs at least one shard")
        (result,) = self.together.results(_Ask(function, shards, shared, merge=merge))
        return result

    def cores_here(self) -> int:
        """Return how many cores there are for this member: its own, and those that nobody uses."""
        return 1 + max(0, self.together.cores - self.together.busy)

    def keeping(self, items: Sequence[Any]) -> None:
        """Keep nothing: passes are shared with others, and made where these ask for them."""
        del items

    def tell(self, place: int, said: Any) -> None:
        """Say something to all members at a place, where they need not be yet."""
        self.together.tell(place, self.number, said)

    def meet(self, place: int, said: T) -> list[T]:
        """Return what all members say at a place, in their order: who has not come there yet is waited for."""
        return self.together.met(place, self.number, said)

    def close(self) -> None:
        """Leave the backend to all the others."""


class Together:
    """Runs members over one engine, as many at a time as there are cores, and makes their passes."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.cores = available_cores() if engine.pinned is None else engine.backend.workers
        self.turn = threading.Condition()
        self.waiting: list[_Ask] = []
        self.busy = self.left = self.count = 0
        self.said: dict[int, dict[int, Any]] = {}  # by place, then by member
        self.failed: BaseException | None = None

    def run(self, tasks: Sequence[Callable[[Partner], R]], at_once: int | None = None) -> list[R]:
        """Return what the tasks return, each given a member of its own; the first error ends all of them.

        ``at_once`` of them are under way at a time, all unless it is given: members that meet must all be.
        """
        found: dict[int, R] = {}
        waiting = iter(enumerate(tasks))  # taking from it is one step of the interpreter
        self.count, self.left = len(tasks), min(len(tasks), at_once or len(tasks))

        def go() -> None:
            try:
                while self.failed is None and (each := next(waiting, None)) is not None:
                    number, task = each
                    self._take_core()
                    try:
                        found[number] = task(Partner(self, number, self._pinned(number)))
                    finally:
                        self._leave_core()
            except PartnerEndedError:
                pass
            except BaseException as error:
                self._fail(error)
            finally:
                with self.turn:
                    self.left -= 1
                    self.turn.notify_all()

        threads = [threading.Thread(target=go, name=f"svmsieve-member-{k}") for k in range(self.left)]
        try:
            for thread in threads:
                thread.start()
            self._drive()
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        return [found[k] for k in range(len(tasks))]

    def results(self, ask: _Ask) -> Iterator[Any]:
        """Wait for the pass, without a core, and yield its results; called by members."""
        with self.turn:
            self._check()
            self.waiting.append(ask)
            self.busy -= 1
            self.turn.notify_all()
        try:
            while (item := self._next(ask)) is not None:
                yield item[0]
        finally:
            ask.closed = True
            self._take_core()

    def tell(self, place: int, number: int, value: Any) -> None:
        """Keep what a member says at a place."""
        with self.turn:
            self._check()
            self.said.setdefault(place, {})[number] = value
            self.turn.notify_all()

    def met(self, place: int, number: int, value: Any) -> list[Any]:
        """Return what all members say at a place; wait for that, without a core, if they have not yet."""
        self.tell(place, number, value)
        found = self.said[place]
        if len(found) < self.count:
            with self.turn:
                self.busy -= 1
                self.turn.notify_all()
                self.turn.wait_for(lambda: len(found) == self.count or self.failed is not None)
            self._take_core()
            self._check()
        return [found[k] for k in range(self.count)]

    def _next(self, ask: _Ask) -> tuple[Any] | None:
        while True:
            try:
                fine, item = ask.results.get(timeout=SECONDS_BETWEEN_LOOKS)
            except Empty:
                self._check()
                continue
            if not fine and item is not None:
                raise item
            return (item,) if fine else None

    def _pinned(self, k: int) -> Pinned | None:
        """Return where member k solves: the members take turns at the workers."""
        return None if self.engine.pinned is None else self.engine.pinned.another(k)

    def _check(self) -> None:
        if self.failed is not None:
            raise PartnerEndedError

    def _take_core(self) -> None:
        with self.turn:
            self.turn.wait_for(lambda: self.busy < self.cores or self.failed is not None)
            self.busy += 1

    def _leave_core(self) -> None:
        with self.turn:
            self.busy -= 1
            self.turn.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self.turn:
            self.failed = self.failed or error
            self.turn.notify_all()

    def _drive(self) -> None:
        """Make passes until all members have ended."""
        while True:
            with self.turn:
                self.turn.wait_for(
                    lambda: self.failed is not None or not self.left or (self.waiting and self.busy < self.cores)
                )
                if self.failed is not None:
                    raise self.failed
                if not self.left:
                    return
                asks, self.waiting = self.waiting, []
            for group in _alike(asks):
                self._pass(group)

    def _pass(self, group: list[_Ask]) -> None:
        """Make one pass for all of them; an error in it is everybody's."""
        try:
            for results in self._made(group):
                for ask, result in zip(group, results, strict=True):
                    ask.give((True, result))
        except Exception as error:
            for ask in group:
                ask.give((False, error))
        else:
            for ask in group:
                ask.give((False, None))

    def _made(self, group: list[_Ask]) -> Iterator[list[Any]]:
        first, engine = group[0], self.engine
        if len(group) == 1:
            if first.merge is not None:
                yield [engine.reduce(first.function, first.shards, first.merge, *first.shared)]
                return
            for result in engine.stream(first.function, first.shards, *first.shared, window=first.window):
                yield [result]
            return
        function, shared = _several(group)
        shards = list(zip(*(ask.shards for ask in group), strict=True))
        if first.merge is not None:
            merge = _MergeEach([ask.merge for ask in group if ask.merge is not None])
            yield engine.reduce(function, shards, merge, *shared)
            return
        window = None if first.window is None else min(ask.window or first.window for ask in group)
        yield from engine.stream(function, shards, *shared, window=window)


def _alike(asks: list[_Ask]) -> list[list[_Ask]]:
    """Put asks together that one pass can serve."""
    groups: dict[tuple[Any, ...], list[_Ask]] = {}
    for ask in asks:
        form = ask.function if ask.function in _forms else None  # forms are for one function only
        groups.setdefault((*ask.place, form), []).append(ask)
    return list(groups.values())


def _several(group: list[_Ask]) -> Several:
    """Return a function of the members' shards, and what it shares with its tasks."""
    form = _forms.get(group[0].function)
    if form is not None:
        return form([ask.shared for ask in group])
    ends = [0]
    for ask in group:
        ends.append(ends[-1] + len(ask.shared))
    return _EachInTurn([ask.function for ask in group], ends), tuple(v for ask in group for v in ask.shared)


class _EachInTurn:
    """Calls every member's function for its view of a shard, with its own part of what is shared."""

    def __init__(self, functions: list[Callable[..., Any]], ends: list[int]) -> None:
        self.functions, self.ends = functions, ends

    def __call__(self, shards: tuple[Any, ...], *shared: Any) -> list[Any]:
        parts = zip(self.functions, shards, self.ends, self.ends[1:], strict=False)
        return [function(shard, *shared[first:end]) for function, shard, first, end in parts]


class _MergeEach:
    """Merges lists of results, one a member, member by member."""

    def __init__(self, merges: list[Callable[[Sequence[Any]], Any]]) -> None:
        self.merges = merges

    def __call__(self, parts: Sequence[list[Any]]) -> list[Any]:
        return [merge([part[k] for part in parts]) for k, merge in enumerate(self.merges)]
