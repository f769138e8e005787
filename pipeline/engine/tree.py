"""How a pass is cut and put together again: a merge tree over the shards, and runs of neighbours.

The tree merges neighbours, ``FAN_IN`` at a time, level by level. Its shape depends on the number of shards only: a sum
has the same bits whoever did which part of it, as long as a part is a whole subtree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from pipeline.engine.naming import nonzeros_of

T = TypeVar("T")
R = TypeVar("R")

FAN_IN = 8  # results merged at a time, which is what memory holds of them; another number is other bits


def merged(results: Sequence[R], merge: Callable[[Sequence[R]], R]) -> R:
    """Merge the results of all shards, or of all of a level's subtrees; ``merge([x])`` is x."""
    while len(results) > FAN_IN:
        results = [merge(results[k : k + FAN_IN]) for k in range(0, len(results), FAN_IN)]
    return merge(results)


def subtrees(shards: Sequence[T], least: int) -> list[list[T]]:
    """Cut shards into whole subtrees, as large ones as give at least ``least`` of them."""
    size = 1
    while -(-len(shards) // (size * FAN_IN)) >= least:
        size *= FAN_IN
    return [list(shards[k : k + size]) for k in range(0, len(shards), size)]


def runs(items: Sequence[T], count: int) -> list[list[T]]:
    """Cut items (shards, or parts of the tree) into at most ``count`` runs of neighbours of about the same size."""
    ends = list(accumulate(nonzeros_of(item) for item in items))
    cuts, run = [0], 1
    for k, end in enumerate(ends[:-1], start=1):
        if end * count >= run * ends[-1]:
            cuts.append(k)
            run = end * count // ends[-1] + 1
    return [list(items[first:stop]) for first, stop in zip(cuts, [*cuts[1:], len(items)], strict=True)]


class Merged:
    """A function of a subtree: ``task`` of every shard, merged."""

    def __init__(self, task: Callable[..., Any], merge: Callable[[Sequence[Any]], Any]) -> None:
        self.task, self.merge = task, merge

    def __call__(self, shards: Sequence[Any], *shared: Any) -> Any:
        """Go through the subtree."""
        return merged([self.task(shard, *shared) for shard in shards], self.merge)
