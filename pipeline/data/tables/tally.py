"""What is counted of a column: mean and variance of its numbers, and how often each value occurs.

Mean and variance are those of blocks of as many numbers each, merged by Chan's formula in source order: the same bits
however many threads there are, and whatever batches or files the rows come in. (scikit-learn's StandardScaler takes
batches only one after the other, as they are; tests hold these to it.)

Distinct values are counted as long as a column has at most ``MOST_VALUES`` of them and all columns together
``MOST_TOGETHER``; beyond that only the more frequent half of those seen so far is, and names the buckets of hashed
values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.data.tables.cells import Coded
from pipeline.dataclass import dataclass

MOST_VALUES = 100_000  # of a column with a feature each
BLOCK_NUMBERS, BLOCKS_CELLS = 1 << 16, 1 << 20  # of a column at a time; of all columns: 8 MB
MOST_TOGETHER = 2_000_000  # of all columns: some 300 MB
LONGEST_VALUE = 200  # characters; a column with longer values is hashed: dictionaries stay small
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Moments:
    """Count, mean, sum of squared deviations, smallest and largest of some numbers."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, x: np.ndarray) -> Moments:
        """Return those of numbers of which none is missing."""
        if not x.size:
            return cls()
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(x.mean())
            return cls(x.size, mean, float(np.square(x - mean).sum()), float(x.min()), float(x.max()))

    def __add__(self, other: Moments) -> Moments:
        if not self.count or not other.count:
            return self if self.count else other
        count, step = self.count + other.count, other.mean - self.mean
        squares = self.squares + other.squares + step * step * (self.count * (other.count / count))
        mean = self.mean + step * (other.count / count)
        return Moments(count, mean, squares, min(self.low, other.low), max(self.high, other.high))

    @property
    def centre(self) -> float:
        """The mean, which rounding may have put outside of the numbers: of equal ones it is theirs."""
        return min(max(self.mean, self.low), self.high) if self.count else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation, 1 where it is 0 but for rounding, as StandardScaler has it."""
        variance = self.squares / self.count if self.count else 0.0
        error = self.count * self.mean * _EPS
        rounding = self.count * _EPS * variance + error * error
        return 1.0 if variance <= rounding < math.inf else math.sqrt(variance)


@dataclass
class Numbers:
    """Numbers that come in pieces, taken ``size`` at a time."""

    size: int
    done: Moments = field(default_factory=Moments)
    waiting: list[np.ndarray] = field(default_factory=list)
    count: int = 0

    def add(self, x: np.ndarray) -> None:
        """Take in some numbers, of which none is missing."""
        self.waiting.append(x)
        self.count += x.size
        if sum(each.size for each in self.waiting) >= self.size:
            self._settle()

    def merge(self, later: Numbers) -> None:
        """Take in numbers that were counted elsewhere."""
        self.done, self.waiting, self.count = self.moments + later.moments, [], self.count + later.count

    def _settle(self) -> None:
        """Count all whole blocks."""
        held = np.concatenate(self.waiting)
        whole = held.size // self.size * self.size
        for first in range(0, whole, self.size):
            self.done += Moments.of(held[first : first + self.size])
        self.waiting = [held[whole:].copy()]

    @property
    def moments(self) -> Moments:
        """Those of all numbers so far."""
        return self.done + Moments.of(np.concatenate(self.waiting)) if self.waiting else self.done


@dataclass
class Values:
    """How often each value occurs; ``all`` says whether all are counted, ``twice`` whether any occurred twice.

    Once there are too many, the more frequent half of those seen so far goes on being counted, and no other.
    """

    counts: dict[str, int] = field(default_factory=dict)
    all: bool = True
    twice: bool = False
    long: bool = False
    kept: pa.Array | None = None

    def add(self, cells: Coded) -> None:
        """Count the values of some rows."""
        counts, spelled = cells.counts(), cells.spelled
        if self.kept is not None:
            known = pc.is_in(spelled, self.kept).to_numpy(zero_copy_only=False) & (counts > 0)
            spelled, counts = spelled.filter(pa.array(known)), counts[known]
        self._count(zip(spelled.to_pylist(), counts.tolist(), strict=True))

    def merge(self, later: Values) -> None:
        """Take in what was counted in later rows."""
        self._count(pair for pair in later.counts.items() if self.kept is None or pair[0] in self.counts)
        self.all = self.all and later.all
        self.twice = self.twice or later.twice
        self.long = self.long or later.long

    def _count(self, pairs: Iterable[tuple[str, int]]) -> None:
        for text, count in pairs:
            if not count:
                continue
            if len(text) > LONGEST_VALUE:
                self.long = True
                continue
            now = self.counts.get(text, 0) + count
            self.counts[text] = now
            self.twice = self.twice or now > 1
        if len(self.counts) > MOST_VALUES:
            self.forget()

    def forget(self) -> None:
        """Keep the more frequent half."""
        kept = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[: max(1, len(self.counts) // 2)]
        self.counts, self.all = dict(kept), False
        self.kept = pa.array(list(self.counts), pa.string())
