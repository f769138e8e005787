"""How many cores there are to use, and how many of them what runs in this thread may use: never what it computes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_lent: ContextVar[Callable[[], int]] = ContextVar("lent", default=lambda: 1)


def available_cores() -> int:
    """Return the number of cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def lending(cores: Callable[[], int]) -> Iterator[None]:
    """Let what is called in this scope use so many cores as ``cores`` tells, whenever it asks."""
    token = _lent.set(cores)
    try:
        yield
    finally:
        _lent.reset(token)


def each(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return function(item) of items, in order, on the cores that are lent; each is worth a thread's start (0.1 ms)."""
    count = min(lent_cores(), len(items))
    if count < 2:
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - small runs do without

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, items))


def lent_cores() -> int:
    """Return how many cores there are to use just now, this thread's own included."""
    return _lent.get()()
