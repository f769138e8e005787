"""The first read of tables: batches are looked at in parallel, and what they say is merged in source order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Protocol

import pyarrow as pa

from pipeline.data.parallel import in_order
from pipeline.data.reading.block import Origin
from pipeline.data.reading.layout import Layout, listed
from pipeline.data.tables.decide import Columns, decide, questions
from pipeline.data.tables.encoding import Encoding
from pipeline.data.tables.plan import TablePlan
from pipeline.data.tables.survey import EMPTY, UNTYPED, BatchFound, ColumnFound, Question, kind_of_column, look
from pipeline.data.tables.tally import MOST_TOGETHER
from pipeline.dataclass import dataclass
from pipeline.errors import DataError, NoRowsError
from pipeline.events import Listener, Progress

RawBatch = tuple[pa.RecordBatch | pa.Table, Origin, int]  # rows, where they stand, how many bytes they are


class Table(Protocol):
    """A file, or a frame in memory, that has columns with names and types."""

    path: str
    layout: Layout

    @property
    def size(self) -> int: ...  # noqa: D102
    @property
    def untyped(self) -> frozenset[str]:
        """The columns that are text whatever they hold."""
        ...

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The Arrow type of every column."""
        ...

    def batches(self) -> Iterator[RawBatch]:
        """Yield the columns of its layout, some rows at a time."""
        ...


def learn(tables: Sequence[Table], plan: TablePlan, workers: int, listen: Listener) -> Encoding:
    """Read tables once and return what is to be done with their columns."""
    plan, kinds = settled_plan(tables, plan)
    survey = Survey(questions(plan, kinds))
    total = sum(table.size for table in tables)
    with ThreadPoolExecutor(workers, "svmsieve-survey") as pool:
        done, rows = 0, 0
        for table in tables:
            before = rows
            for found, count, share in in_order(pool, survey.tasks(table), ahead=workers + 1):
                survey.add(found)
                done, rows = done + share, rows + count
                listen(Progress("columns", rows, done, total))
            if rows == before:
                raise NoRowsError("no rows in the file; remove it from the list or write it again", path=table.path)
    return decide(plan, kinds, survey.found, tables[0].path)


@dataclass
class Survey:
    """What is known of every column so far."""

    questions: dict[Columns, Question]

    def __post_init__(self) -> None:
        self.found = {
            names: ColumnFound.nothing(question, len(self.questions)) for names, question in self.questions.items()
        }

    def tasks(self, table: Table) -> Iterator[Callable[[], tuple[dict[Columns, BatchFound], int, int]]]:
        """Yield callables that each look at a batch, for what is not settled yet."""
        for batch, origin, share in table.batches():
            yield partial(_looked, batch, self._open(), origin, share)

    def _open(self) -> dict[Columns, Question]:
        """Return what is still to be found out: nobody looks for dates where there was something else."""
        return {names: replace(question, dates=self.found[names].dates) for names, question in self.questions.items()}

    def add(self, batch: dict[Columns, BatchFound]) -> None:
        """Take in what the next batch says; where there are too many values, the column with most forgets some."""
        for names, found in batch.items():
            self.found[names].add(found)
        self._forget()

    def merge(self, later: Mapping[Columns, ColumnFound]) -> None:
        """Take in what is known of later rows."""
        for names, found in later.items():
            self.found[names].merge(found)
        self._forget()

    def _forget(self) -> None:
        values = [found.values for found in self.found.values() if found.values is not None]
        while sum(len(each.counts) for each in values) > MOST_TOGETHER:
            max(values, key=lambda each: len(each.counts)).forget()


def _looked(
    batch: pa.RecordBatch | pa.Table, wanted: dict[Columns, Question], origin: Origin, share: int
) -> tuple[dict[Columns, BatchFound], int, int]:
    return look(batch, wanted, origin), batch.num_rows, share


def settled_plan(tables: Sequence[Table], plan: TablePlan) -> tuple[TablePlan, dict[str, str]]:
    """Return the plan with label, weight and group as the layout has them, and what kind each other column is."""
    layout = tables[0].layout
    assert layout.raw is not None
    kinds: dict[str, str] = {}
    for table in tables:
        raw = table.layout.raw
        assert raw is not None
        if set(raw) != set(layout.raw):
            differing = sorted(set(raw) ^ set(layout.raw))
            raise DataError(
                f"column '{differing[0]}' is not in all files; every file must have the same columns", path=table.path
            )
        for name in layout.raw:
            kind = kind_of_column(table.types[name], name in table.untyped)
            before = kinds.setdefault(name, kind)
            if EMPTY in (before, kind):
                kinds[name] = before if kind == EMPTY else kind
            elif UNTYPED in (before, kind):
                kinds[name] = UNTYPED
            elif before != kind:
                problem = f"column '{name}' is {table.types[name]} here, and {before} in {tables[0].path}"
                raise DataError(f"{problem}; write it alike in all files", path=table.path)
    unknown = [name for name in plan.named if name not in kinds]
    if unknown:
        known = listed(list(kinds))
        raise DataError(
            f"{plan.source} names columns that are not there: {listed(unknown)}; there are {known}", path=tables[0].path
        )
    return replace(plan, label=layout.label, weight=layout.weight, group=layout.group), kinds
