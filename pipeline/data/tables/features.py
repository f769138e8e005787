"""One column as features: a number, one feature a value, the parts of a date, or values in hashed buckets.

A role has ``columns`` that it needs, ``width`` features of its own, the k-th called ``name(k)``, and says in ``slots``
which of them a row has: for every slot the feature's number (from the role's first on) and its value, 0 where a row has
nothing there. What a role does with cells that no
training row had:

    number      a gap is the mean, zero, or the mean and a feature of its own; text that is no number is an error
    category    a value that is rare or new is ``column=(other)``, a gap ``column=(missing)``: features that exist
                from the beginning, so that appended rows can teach what they mean
    date        a gap is ``column=(missing)``; text that is no date is an error
    hashed      any value has a bucket; a gap is a value
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from pipeline.data.reading.block import Origin
from pipeline.data.tables.cells import Coded, coded, moments, numbers
from pipeline.data.tables.crossed import CROSS, GAP, crossed
from pipeline.data.tables.plan import INDICATOR, NONE
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

OTHER = "(other)"
Batch: TypeAlias = pa.RecordBatch | pa.Table
Slot = tuple[np.ndarray | int, np.ndarray | float]  # the feature of each row, and its value
_RANGES = {"minute": (0, 60), "hour": (0, 24), "weekday": (0, 7), "day": (1, 31), "month": (1, 12)}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Number:
    """(x - mean) / scale, as the nearest float32 where it was scaled: half the bytes, and nobody measures as finely.

    A gap counts as the number ``gap``; ``missing`` and ``scaled`` are the rules that these numbers come from.
    """

    role: ClassVar[str] = "number"
    column: str
    mean: float
    scale: float
    gap: float
    missing: str
    scaled: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    @property
    def width(self) -> int:
        """The number, and whether there is none."""
        return 2 if self.missing == INDICATOR else 1

    def name(self, k: int) -> str:
        """Return the column's name, or that of its gaps."""
        return f"{self.column}={GAP}" if k else self.column

    def slots(self, batch: Batch, origin: Origin) -> Iterator[Slot]:
        """Yield the scaled number, and 1 where there is none."""
        x, wrong = numbers(batch.column(self.column))
        if wrong is not None:
            raise _no(batch, self.column, wrong, origin, "number")
        infinite = np.flatnonzero(np.isinf(x))
        if infinite.size:
            raise origin.error(
                int(infinite[0]), f"column '{self.column}' is infinite here; correct it or leave it empty"
            )
        gap = np.isnan(x)
        with np.errstate(over="ignore"):
            value = (np.where(gap, self.gap, x) - self.mean) / self.scale
            if self.scaled != NONE:
                narrow = value.astype(np.float32).astype(np.float64)
                value = np.where(np.isfinite(narrow), narrow, value)
        yield 0, value
        if self.missing == INDICATOR:
            yield 1, gap.astype(np.float64)


@dataclass(frozen=True)
class Category:
    """A feature for each of ``values``, which at least ``min_count`` rows have; one for all others, one for gaps."""

    role: ClassVar[str] = "category"
    columns: tuple[str, ...]
    values: tuple[str, ...]
    min_count: int

    @property
    def width(self) -> int:
        """The values, others, gaps."""
        return len(self.values) + 2

    def name(self, k: int) -> str:
        """Return ``column=value``."""
        return valued(self.columns, (*self.values, OTHER, GAP)[k] if k >= len(self.values) else self.values[k])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {value: k for k, value in enumerate(self.values)}

    def slots(self, batch: Batch, origin: Origin) -> Iterator[Slot]:
        """Yield the feature of every row's value."""
        cells, places, other = cells_of(batch, self.columns), self._places, len(self.values)
        found = np.fromiter((places.get(text, other) for text in cells.texts), np.int32, len(cells.values))
        yield cells.spread(found, other + 1), 1.0


@dataclass(frozen=True)
class Date:
    """The parts of a date, each a category whose values are known beforehand: July is a feature in January."""

    role: ClassVar[str] = "date"
    column: str
    parts: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    @property
    def width(self) -> int:
        """All values of all parts, and gaps."""
        return sum(_RANGES[part][1] for part in self.parts) + 1

    def name(self, k: int) -> str:
        """Return ``column.part=value``."""
        for part in self.parts:
            low, count = _RANGES[part]
            if k < count:
                return f"{self.column}.{part}={_DAYS[k] if part == 'weekday' else low + k}"
            k -= count
        return f"{self.column}={GAP}"

    def slots(self, batch: Batch, origin: Origin) -> Iterator[Slot]:
        """Yield a feature for each part."""
        when, wrong = moments(batch.column(self.column))
        if wrong is not None:
            raise _no(batch, self.column, wrong, origin, "date (write 2026-01-31, or 2026-01-31T18:30:00)")
        gap = np.isnat(when)
        known = np.where(gap, np.datetime64(0, "us"), when)
        first = 0
        for part in self.parts:
            yield first + _PARTS[part](known).astype(np.int32), (~gap).astype(np.float64)
            first += _RANGES[part][1]
        yield first, gap.astype(np.float64)


_PARTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "minute": lambda when: (when - when.astype("M8[h]")) // np.timedelta64(1, "m"),
    "hour": lambda when: (when - when.astype("M8[D]")) // np.timedelta64(1, "h"),
    "weekday": lambda when: (when.astype("M8[D]").astype(np.int64) + 3) % 7,  # the first day of 1970 was a Thursday
    "day": lambda when: (when.astype("M8[D]") - when.astype("M8[M]")).astype(np.int64),
    "month": lambda when: when.astype("M8[M]").astype(np.int64) % 12,
}


@dataclass(frozen=True)
class Hashed:
    """Values in ``buckets`` shared with all that is hashed: ``column=value`` by scikit-learn's FeatureHasher.

    The hash is computed once a distinct value of a batch, FeatureHasher's would be once a row: on a million rows of
    5,000 values that is 0.03 s and not 0.9 s (tests hold both to the same buckets and signs).
    """

    role: ClassVar[str] = "hashed"
    columns: tuple[str, ...]
    buckets: int
    width: ClassVar[int] = 0

    def name(self, k: int) -> str:
        """Have no feature of its own."""
        raise IndexError(k)

    def slots(self, batch: Batch, origin: Origin) -> Iterator[Slot]:
        """Yield the bucket of every row's value, and the sign of its hash."""
        cells = cells_of(batch, self.columns)
        found = [bucket_of(valued(self.columns, text), self.buckets) for text in (*cells.texts, GAP)]
        place, sign = (np.array(each) for each in zip(*found, strict=True))
        yield place.astype(np.int32)[cells.codes], sign.astype(np.float64)[cells.codes]


def cells_of(batch: Batch, columns: tuple[str, ...]) -> Coded:
    """Return the values of a column, or of several that count together."""
    found = [coded(batch.column(name)) for name in columns]
    return found[0] if len(found) == 1 else crossed(found)


def valued(columns: tuple[str, ...], value: str) -> str:
    """Return what a value is called: ``origin=JFK & dest=LAX``."""
    parts = value.split(CROSS) if len(columns) > 1 else [value]
    if len(parts) != len(columns):  # others, or a gap: of all of them
        return f"{' & '.join(columns)}={value}"
    return " & ".join(f"{name}={part}" for name, part in zip(columns, parts, strict=True))


def bucket_of(name: str, buckets: int) -> tuple[int, int]:
    """Return the bucket of a name and its sign, as scikit-learn's FeatureHasher has them."""
    from sklearn.utils import murmurhash3_32  # noqa: PLC0415 - slow to import, and few tables are hashed

    number = int(murmurhash3_32(name.encode("utf-8", "surrogatepass"), seed=0))
    place = 2**31 - buckets if number == -(2**31) else abs(number)
    return place % buckets, 1 if number >= 0 else -1


def _no(batch: Batch, name: str, row: int, origin: Origin, what: str) -> DataError:
    """Return the error for a cell that is not what its column was in training."""
    column = batch.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    shown = str(column[row].as_py())
    shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
    return origin.error(
        row, f"column '{name}' ({kind}) says {shown!r}, which is no {what}; correct it or leave it empty"
    )
