"""The first read: what is in every column, in bounded memory, a batch at a time and merged in source order.

A column of a Parquet file has a type; one of a CSV file is numbers if every cell is one, else dates if every cell is
one, else text, so all three are watched until two are out. Distinct values are counted as long as a column has at most
``MOST_VALUES`` of them and all columns together ``MOST_TOGETHER``; beyond that only the more frequent half of those
seen so far is, and names the buckets of hashed values.

Mean and variance are merged by Chan's formula, batch after batch in source order: the same bits however many threads.
(scikit-learn's StandardScaler takes batches only one after the other; tests hold these to it.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.data.reading.block import Origin
from pipeline.data.reading.layout import is_numeric, is_text
from pipeline.data.tables.cells import Coded, coded, is_moment, moments, numbers
from pipeline.data.tables.words import Words, texts_of
from pipeline.errors import DataError

MOST_VALUES = 100_000  # of a column with a feature each
MOST_TOGETHER = 2_000_000  # of all columns: some 300 MB
CROSS = "\x1f"  # between the values of columns that count together: a character that tables do not use
GAP = "(missing)"  # the value that a gap is among them
SAMPLED = 1_000  # rows of a batch whose words are counted: all of them would take as long as the rest of ingest
LONGEST_VALUE = 200  # characters; a column with longer values is hashed: dictionaries stay small
NUMBER, TEXT, DATE, BOOLEAN, UNTYPED, EMPTY, OTHER = KINDS = (
    *("number", "text", "date", "boolean", "untyped", "empty", "other"),
)


def kind_of(kind: pa.DataType, untyped: bool = False) -> str:
    """Return what a column of an Arrow type holds; ``untyped`` columns are text that may be anything."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = ((is_numeric, NUMBER), (is_text, TEXT), (is_moment, DATE), (pa.types.is_boolean, BOOLEAN))
    if untyped:
        return UNTYPED
    if pa.types.is_null(plain):
        return EMPTY
    return next((name for test, name in tests if test(plain)), OTHER)


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
    def deviation(self) -> float:
        """The standard deviation, as StandardScaler has it."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0


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
        counts, values = cells.counts(), cells.values
        if self.kept is not None:
            place = pc.index_in(values, self.kept).fill_null(-1).to_numpy(zero_copy_only=False)
            found = np.flatnonzero((place >= 0) & (counts > 0))
            values, counts = values.take(pa.array(found)), counts[found]
        self._count(zip(Coded(cells.codes, values).texts, counts.tolist(), strict=True))

    def merge(self, later: Values) -> None:
        """Take in what was counted in later rows."""
        self._count(pair for pair in later.counts.items() if self.kept is None or pair[0] in self.counts)
        self.all = self.all and later.all
        self.twice = self.twice or later.twice
        self.long = self.long or later.long

    def _count(self, pairs: Iterable[tuple[str, int]]) -> None:
        known = self.counts
        for text, count in pairs:
            if not count:
                continue
            if len(text) > LONGEST_VALUE:
                self.long = True
                continue
            before = known.get(text, 0)
            known[text] = before + count
            self.twice = self.twice or before + count > 1
        if len(known) > MOST_VALUES:
            self.forget()

    def forget(self) -> None:
        """Keep the more frequent half."""
        kept = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[: max(1, len(self.counts) // 2)]
        self.counts, self.all = dict(kept), False
        self.kept = pa.array(list(self.counts), pa.string())


@dataclass(frozen=True)
class Wish:
    """What is to be found out of a column (or of several that count together)."""

    columns: tuple[str, ...]
    kind: str
    numbers: bool = False
    dates: bool = False
    values: bool = False
    words: tuple[int, int] | None = None  # runs of so many words are counted, for their names


@dataclass
class Found:
    """What is known of a column after some rows. ``numbers`` and ``dates`` are None once a cell is something else."""

    rows: int = 0
    missing: int = 0
    numbers: Moments | None = None
    dates: bool = False
    times: bool = False
    values: Values | None = None
    words: Counter[str] = field(default_factory=Counter)

    @classmethod
    def nothing(cls, wish: Wish) -> Found:
        """Return what is known before the first row."""
        return cls(
            numbers=Moments() if wish.numbers else None,
            dates=wish.dates,
            values=Values() if wish.values else None,
        )

    def add(self, batch: BatchFound) -> None:
        """Take in what was found in the next batch."""
        self.rows += batch.rows
        self.missing += batch.missing
        if self.numbers is not None:
            self.numbers = None if batch.numbers is None else self.numbers + batch.numbers
        self.dates = self.dates and batch.dates
        self.times = self.times or batch.times
        if self.values is not None and batch.cells is not None:
            self.values.add(batch.cells)
        self._count_words(batch.words)

    def merge(self, later: Found) -> None:
        """Take in what was found in later rows."""
        self.add(BatchFound(later.rows, later.missing, later.numbers, later.dates, later.times, words=later.words))
        if self.values is not None and later.values is not None:
            self.values.merge(later.values)

    def _count_words(self, words: Mapping[str, int]) -> None:
        self.words.update(words)
        if len(self.words) > MOST_VALUES:
            self.words = Counter(dict(self.words.most_common(MOST_VALUES // 2)))


@dataclass(frozen=True)
class BatchFound:
    """What a column has in one batch."""

    rows: int
    missing: int
    numbers: Moments | None = None
    dates: bool = False
    times: bool = False
    cells: Coded | None = None
    words: Mapping[str, int] = field(default_factory=dict)


def look(batch: pa.RecordBatch | pa.Table, wishes: Mapping[str, Wish], origin: Origin) -> dict[str, BatchFound]:
    """Look at the columns of a batch."""
    try:
        return {name: _look(batch, wish, origin) for name, wish in wishes.items()}
    except pa.ArrowException as error:
        raise unreadable(error, origin) from error


def unreadable(error: Exception, origin: Origin) -> DataError:
    """Return the error for a batch that Arrow finds damaged."""
    said = (str(error).splitlines() or ["it is damaged"])[0]
    return DataError(f"a column cannot be read ({said}); write the file again, or name it under drop", path=origin.path)


def _look(batch: pa.RecordBatch | pa.Table, wish: Wish, origin: Origin) -> BatchFound:
    if len(wish.columns) > 1:
        cells = crossed([coded(batch.column(name)) for name in wish.columns])
        return BatchFound(batch.num_rows, 0, cells=cells)
    column, name = batch.column(wish.columns[0]), wish.columns[0]
    found: Moments | None = None
    gaps = column.null_count
    if wish.numbers:
        x, wrong = numbers(column)
        infinite = np.flatnonzero(np.isinf(x))
        if infinite.size:
            raise origin.error(int(infinite[0]), f"column '{name}' is infinite here; correct it or leave it empty")
        if wrong is None:
            known = x[~np.isnan(x)]
            found, gaps = Moments.of(known), x.size - known.size
    dates, times = False, False
    if wish.dates and (found is None or not found.count):
        when, wrong = moments(column)
        dates, gaps = wrong is None, int(np.count_nonzero(np.isnat(when)))
        times = bool((when[~np.isnat(when)].astype("M8[D]") != when[~np.isnat(when)]).any())
    if not wish.values:
        words = {} if wish.words is None else _words(batch, name, wish.words, origin)
        return BatchFound(batch.num_rows, gaps, found, dates, times, words=words)
    cells = coded(column)
    gaps = int(np.count_nonzero(cells.codes < 0))
    long = wish.kind in (TEXT, UNTYPED) and cells.longest > LONGEST_VALUE
    words = _words(batch, name, (1, 1), origin) if long else {}
    return BatchFound(batch.num_rows, gaps, found, dates, times, cells, words)


def _words(batch: pa.RecordBatch | pa.Table, name: str, ngrams: tuple[int, int], origin: Origin) -> Counter[str]:
    """Count the words of some rows: the first of every batch, which are enough to tell the most frequent ones."""
    role = Words(name, ngrams, 1)
    return Counter(word for text in texts_of(batch.slice(0, SAMPLED), name, origin) for word in role.names(text))


def crossed(columns: list[Coded]) -> Coded:
    """Return several columns as one whose values are the combinations that occur; a gap is a value, too."""
    first = _with_gaps(columns[0])
    for cells in map(_with_gaps, columns[1:]):
        width = len(cells.values)
        together = first.codes.astype(np.int64) * width + cells.codes
        distinct, codes = np.unique(together, return_inverse=True)
        left, right = first.texts, cells.texts
        said = [f"{left[number // width]}{CROSS}{right[number % width]}" for number in distinct.tolist()]
        first = Coded(codes.reshape(-1).astype(np.int32), pa.array(said, pa.string()))
    return first


def _with_gaps(cells: Coded) -> Coded:
    texts = [*cells.texts, GAP]
    return Coded(np.where(cells.codes < 0, np.int32(len(texts) - 1), cells.codes), pa.array(texts, pa.string()))
