"""Shards one after the other, known by their digests: where are the rows of another shard or file among them?

Neighbours may have become one since. With P_k the digest of the first k shards, that of shards [i, j) with r rows is
P_j - P_i B^r mod 2^64 in each lane (``digest``), so that every place with r rows is tried without joining any.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from pipeline.data.shards.digest import Lanes, join_digests, lanes_of, without_first


class DigestSequence:
    """Digests and numbers of rows, in order; ``starts[k]`` is the first row of shard k, its last entry all rows."""

    def __init__(self, shards: Iterable[tuple[str, int]]) -> None:
        parts = [(lanes_of(digest), rows) for digest, rows in shards]
        self.starts = list(accumulate((rows for _, rows in parts), initial=0))
        self._prefixes = list(accumulate(parts, lambda left, part: join_digests([(left, 0), part]), initial=(0, 0)))
        self._number = {start: k for k, start in enumerate(self.starts)}
        self._alone = {(lanes, rows): k for k, (lanes, rows) in enumerate(parts)}

    def joined(self, first: int, stop: int) -> Lanes:
        """Return the digest of shards [first, stop)."""
        rows = self.starts[stop] - self.starts[first]
        return without_first(self._prefixes[stop], self._prefixes[first], rows)

    def find(self, lanes: Lanes, rows: int) -> tuple[int, int] | None:
        """Return the shards [first, stop) that have just these rows; None if there are none."""
        alone = self._alone.get((lanes, rows))
        if alone is not None:
            return alone, alone + 1
        for first, start in enumerate(self.starts):
            stop = self._number.get(start + rows)
            if stop is not None and self.joined(first, stop) == lanes:
                return first, stop
        return None
