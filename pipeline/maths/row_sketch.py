"""A sketch of a set of rows: the k smallest of their hashes, each once (bottom-k).

Hashes are uniform over 64 bits, so that all of the set's hashes up to the largest one kept, the ``limit``, are known.
Of M other rows let b have a hash up to the limit, and f of these be in the sketch: then about M f/b of the M rows are
in the set, with a standard error of M sqrt(p (1 - p)/b), p = f/b. A set of at most k different rows is kept whole: the
limit is the largest number there is, b = M, and f is the count itself. Hash 0 is that of rows without features: these
are nobody's, and count nowhere.
"""

from __future__ import annotations

import numpy as np

from pipeline.dataclass import dataclass

MOST = 1 << 16  # k: 512 kB; of 10 million rows, all of them in the set, some 0.7 % have a hash up to the limit
_LARGEST = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class SketchTally:
    """Of ``rows`` rows with features ``below`` have a hash up to the sketch's limit; ``found`` of these are in it."""

    rows: int = 0
    below: int = 0
    found: int = 0

    def __add__(self, other: SketchTally) -> SketchTally:
        return SketchTally(self.rows + other.rows, self.below + other.below, self.found + other.found)

    @property
    def is_exact(self) -> bool:
        """Whether every row could be looked up."""
        return self.below == self.rows

    @property
    def estimate(self) -> int:
        """How many of the rows are in the set, to the nearest."""
        return round(self.rows * self.found / self.below) if self.below else 0


@dataclass(frozen=True)
class RowSketch:
    """The smallest hashes of a set, ascending; ``complete`` if they are all there are."""

    hashes: np.ndarray
    complete: bool

    @property
    def limit(self) -> np.uint64:
        """The hash up to which all of the set are known."""
        return _LARGEST if self.complete else self.hashes[-1]

    def tally(self, hashes: np.ndarray) -> SketchTally:
        """Look up the hashes of some rows; equal rows count each."""
        hashes = hashes[hashes != 0]
        below = hashes if self.complete else hashes[hashes <= self.limit]
        found = 0
        if self.hashes.size:
            place = np.minimum(np.searchsorted(self.hashes, below), self.hashes.size - 1)
            found = int(np.count_nonzero(self.hashes[place] == below))
        return SketchTally(hashes.size, below.size, found)


class SketchMaker:
    """Makes the sketch of a set that comes in parts: in whatever order and cut, it is the same."""

    def __init__(self, most: int = MOST) -> None:
        self.most, self.waiting = most, 0
        self.parts: list[np.ndarray] = []
        self.kept = RowSketch(np.empty(0, np.uint64), complete=True)

    def add(self, hashes: np.ndarray) -> None:
        """Take in the hashes of some rows."""
        some = hashes[(hashes != 0) & (hashes <= self.kept.limit)]
        self.parts.append(some)
        self.waiting += some.size
        if self.waiting > self.most:
            self._merge()

    def sketch(self) -> RowSketch:
        """Return the sketch of all that was taken in."""
        self._merge()
        return self.kept

    def _merge(self) -> None:
        found = np.sort(np.concatenate([self.kept.hashes, *self.parts]))  # np.unique takes 20 times as long
        found = found[np.diff(found, prepend=np.uint64(0)) != 0]  # no hash here is 0
        self.kept = RowSketch(found[: self.most].copy(), self.kept.complete and found.size <= self.most)
        self.parts, self.waiting = [], 0
