"""A pass as it is defined: a Dask bag with one partition a shard, one after the other in the calling thread.

The easiest to debug, and what tests hold all other backends to.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dask.bag as db

from pipeline.engine.sharing import read_only


class Inline:
    """One task after the other."""

    name, workers, in_process = "inline", 1, True
    branches = sys.maxsize  # every shard is a partition of its own

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as it is."""
        return function

    def each(
        self, task: Callable[..., Any], items: Sequence[Any], shared: tuple[Any, ...], ahead: int
    ) -> Iterator[Any]:
        """Compute a bag of so many items at a time."""
        call = _Partition(task, [read_only(value) for value in shared])
        for first in range(0, len(items), ahead):
            some = items[first : first + ahead]
            yield from db.from_sequence(some, npartitions=len(some)).map_partitions(call).compute(scheduler="sync")

    def close(self) -> None:
        """Nothing was started."""

    def abandon(self) -> None:
        """Nothing was started."""


class _Partition:
    """Calls ``task`` for the one item of a partition; opaque to Dask, whose names would else cost a look at w."""

    __name__ = "shard"

    def __init__(self, task: Callable[..., Any], shared: list[Any]) -> None:
        self.task, self.shared, self.token = task, shared, uuid.uuid4().hex

    def __dask_tokenize__(self) -> str:
        return self.token

    def __call__(self, partition: Sequence[Any]) -> list[Any]:
        return [self.task(item, *self.shared) for item in partition]
