"""The first read: what is in every column, in bounded memory, a batch at a time and merged in source order.

A column of a Parquet file has a type; one of a CSV file is numbers if every cell is one, else dates if every cell is
one, else text, so all three are watched until two are out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from pipeline.data.reading.block import Origin
from pipeline.data.reading.layout import is_numeric, is_text
from pipeline.data.tables.cells import Coded, coded, comma, is_moment, moments, numbers
from pipeline.data.tables.crossed import crossed
from pipeline.data.tables.tally import BLOCK_NUMBERS, BLOCKS_CELLS, LONGEST_VALUE, MOST_VALUES, Moments, Numbers, Values
from pipeline.data.tables.words import Words, texts_of
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

K = TypeVar("K")
SAMPLED = 1_000  # rows of a batch whose words are counted: all of them would take as long as the rest of ingest
NUMBER, TEXT, DATE, BOOLEAN = "number", "text", "date", "boolean"
UNTYPED, EMPTY, OTHER = "untyped", "empty", "other"


def kind_of_column(kind: pa.DataType, untyped: bool) -> str:
    """Return what a column of an Arrow type holds; ``untyped`` columns are text that may be anything."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = ((is_numeric, NUMBER), (is_text, TEXT), (is_moment, DATE), (pa.types.is_boolean, BOOLEAN))
    if untyped:
        return UNTYPED
    if pa.types.is_null(plain):
        return EMPTY
    return next((name for test, name in tests if test(plain)), OTHER)


@dataclass(frozen=True)
class Question:
    """What is to be found out of a column (or of several that count together)."""

    columns: tuple[str, ...]
    kind: str
    numbers: bool = False
    dates: bool = False
    values: bool = False
    words: tuple[int, int] | None = None  # runs of so many words are counted, for their names


@dataclass
class ColumnFound:
    """What is known of a column after some rows. ``numbers`` is None, ``dates`` false once a cell is something else.

    ``infinite`` is the error for the first number that is, if they turn out to be numbers; ``comma`` the first number
    with a comma, None once a cell is neither that nor a number.
    """

    rows: int = 0
    missing: int = 0
    tally: Numbers | None = None
    infinite: DataError | None = None
    comma: str | None = None
    dates: bool = False
    times: bool = False
    values: Values | None = None
    words: Counter[str] = field(default_factory=Counter)

    @classmethod
    def nothing(cls, question: Question, columns: int = 1) -> ColumnFound:
        """Return what is known before the first row, of one of so many columns."""
        return cls(
            tally=Numbers(max(1, min(BLOCK_NUMBERS, BLOCKS_CELLS // columns))) if question.numbers else None,
            comma="" if question.numbers and question.kind == UNTYPED else None,
            dates=question.dates,
            values=Values() if question.values else None,
        )

    @property
    def numbers(self) -> Moments | None:
        """What the numbers are, if all cells are any."""
        return None if self.tally is None else self.tally.moments

    def add(self, batch: BatchFound) -> None:
        """Take in what was found in the next batch."""
        self.rows += batch.rows
        self.missing += batch.missing
        if batch.numbers is None:
            self.tally = None
        elif self.tally is not None:
            self.tally.add(batch.numbers)
        self.infinite = self.infinite or batch.infinite
        if self.comma is not None and batch.numbers is None:
            self.comma = None if batch.comma is None else self.comma or batch.comma
        self.dates = self.dates and batch.dates
        self.times = self.times or batch.times
        if self.values is not None and batch.cells is not None:
            self.values.add(batch.cells)
        self._count_words(batch.words)

    def merge(self, later: ColumnFound) -> None:
        """Take in what was found in later rows."""
        numbers = None if later.tally is None else np.empty(0)
        more = (later.infinite, later.comma, later.dates, later.times)
        self.add(BatchFound(later.rows, later.missing, numbers, *more, words=later.words))
        if self.tally is not None and later.tally is not None:
            self.tally.merge(later.tally)
        if self.values is not None and later.values is not None:
            self.values.merge(later.values)

    def _count_words(self, words: Mapping[str, int]) -> None:
        self.words.update(words)
        if len(self.words) > MOST_VALUES:
            self.words = Counter(dict(self.words.most_common(MOST_VALUES // 2)))


@dataclass(frozen=True)
class BatchFound:
    """What a column has in one batch; ``numbers`` are those that are finite."""

    rows: int
    missing: int
    numbers: np.ndarray | None = None
    infinite: DataError | None = None
    comma: str | None = None
    dates: bool = False
    times: bool = False
    cells: Coded | None = None
    words: Mapping[str, int] = field(default_factory=dict)


def look(batch: pa.RecordBatch | pa.Table, questions: Mapping[K, Question], origin: Origin) -> dict[K, BatchFound]:
    """Look at the columns of a batch."""
    found = {}
    for names, question in questions.items():
        with readable(question.columns, origin):
            found[names] = _look(batch, question, origin)
    return found


@contextmanager
def readable(columns: Sequence[str], origin: Origin) -> Iterator[None]:
    """Say which columns they are, should Arrow find their cells damaged."""
    try:
        yield
    except pa.ArrowException as error:
        said = (str(error).splitlines() or ["it is damaged"])[0]
        names = " or ".join(f"'{name}'" for name in columns)
        problem = f"column {names} cannot be read ({said}); write it again, or name it under drop"
        raise DataError(problem, path=origin.path) from error


def _look(batch: pa.RecordBatch | pa.Table, question: Question, origin: Origin) -> BatchFound:
    if len(question.columns) > 1:
        cells = crossed([coded(batch.column(name)) for name in question.columns])
        return BatchFound(batch.num_rows, 0, cells=cells)
    column, name = batch.column(question.columns[0]), question.columns[0]
    found = BatchFound(batch.num_rows, column.null_count)
    if question.numbers:
        found = _numbers(found, column, question, origin)
    if question.dates and (found.numbers is None or not found.numbers.size):
        when, wrong = moments(column)
        known = when[~np.isnat(when)]
        times = bool((known.astype("M8[D]") != known).any())
        if wrong is None:
            found = replace(found, missing=when.size - known.size, dates=True, times=times)
    if not question.values:
        return found if question.words is None else replace(found, words=_words(batch, name, question.words, origin))
    cells = coded(column)
    long = question.kind in (TEXT, UNTYPED) and cells.longest > LONGEST_VALUE
    words = _words(batch, name, (1, 1), origin) if long else {}
    gaps = int(np.count_nonzero(cells.codes < 0))
    return replace(found, missing=gaps, cells=cells, words=words)


def _numbers(found: BatchFound, column: pa.Array | pa.ChunkedArray, question: Question, origin: Origin) -> BatchFound:
    """Add what the numbers are, if the cells are any."""
    x, wrong = numbers(column)
    if wrong is not None:
        return replace(found, comma=comma(column) if question.kind == UNTYPED else None)
    infinite = np.flatnonzero(np.isinf(x))
    error = None
    if infinite.size:
        problem = f"column '{question.columns[0]}' is infinite here; correct it or leave it empty"
        error = origin.error(int(infinite[0]), problem)
    known = x[np.isfinite(x)]
    missing = x.size - known.size - infinite.size
    return replace(found, missing=missing, numbers=known, infinite=error)


def _words(batch: pa.RecordBatch | pa.Table, name: str, ngrams: tuple[int, int], origin: Origin) -> Counter[str]:
    """Count the words of some rows: the first of every batch, which are enough to tell the most frequent ones."""
    role = Words(name, ngrams, 1)
    return Counter(word for text in texts_of(batch.slice(0, SAMPLED), name, origin) for word in role.names(text))
