"""Tasks in a pool, results in order, and never more than a few under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

T = TypeVar("T")


def in_order(pool: Executor, tasks: Iterable[Callable[[], T]], ahead: int) -> Iterator[T]:
    """Yield the results of the tasks in their order, with at most ``ahead`` of them submitted and not yet yielded."""
    waiting: deque[Future[T]] = deque()
    try:
        for task in tasks:
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
            waiting.append(pool.submit(task))
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
