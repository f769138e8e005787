"""Tables in memory, in batches of any sizes, as the first read of files sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from pipeline.data.reading.block import Origin
from pipeline.data.reading.layout import Layout
from pipeline.data.tables.encoding import Encoding
from pipeline.data.tables.learn import learn
from pipeline.data.tables.plan import TablePlan
from pipeline.events import silent

ORIGIN = Origin("rows")


@dataclass
class Frame:
    """A table with a label; ``cuts`` are the rows at which batches begin, ``untyped`` columns may be anything."""

    table: pa.Table
    cuts: Sequence[int] = ()
    untyped: frozenset[str] = frozenset()
    path: str = "rows"
    opened: int = field(default=0)

    @property
    def layout(self) -> Layout:
        return Layout("label", None, None, raw=tuple(n for n in self.table.column_names if n != "label"))

    @property
    def size(self) -> int:
        return self.table.nbytes

    @property
    def types(self) -> dict[str, pa.DataType]:
        return {name: self.table.schema.field(name).type for name in self.table.column_names}

    def batches(self):
        self.opened += 1
        ends = [*self.cuts, self.table.num_rows]
        for first, end in zip([0, *self.cuts], ends, strict=True):
            yield self.table.slice(first, end - first), Origin(self.path, first + 1), 0


def frame(columns: dict[str, object], **more: object) -> Frame:
    """Return a table of these columns and labels."""
    table = pa.table(columns)
    labels = pa.array(["ab"[k % 2] for k in range(table.num_rows)])
    return Frame(table.append_column("label", labels), **more)


def learnt(columns: dict[str, object] | Frame, plan: TablePlan | None = None, workers: int = 1, **more) -> Encoding:
    """Return what is learnt of a table."""
    made = columns if isinstance(columns, Frame) else frame(columns, **more)
    return learn([made], plan or TablePlan(), workers, silent)


def rows_of(encoding: Encoding, table: pa.Table) -> list[dict[object, float]]:
    """Return the rows by feature: a name, or the number of a bucket."""
    indptr, indices, values = encoding.csr(table, ORIGIN)
    found = []
    for first, end in pairwise(indptr.tolist()):
        row: dict[object, float] = {}
        for j, value in zip(indices[first:end].tolist(), values[first:end].tolist(), strict=True):
            assert 0 <= j < encoding.n_features
            name = encoding.name(j) if j < encoding.n_own else ("bucket", j - encoding.n_own)
            row[name] = row.get(name, 0.0) + value
        found.append({name: value for name, value in row.items() if value != 0.0})
    return found


def dense(encoding: Encoding, table: pa.Table) -> np.ndarray:
    """Return all features of all rows."""
    indptr, indices, values = encoding.csr(table, ORIGIN)
    found = np.zeros((table.num_rows, encoding.n_features))
    np.add.at(found, (np.repeat(np.arange(table.num_rows), np.diff(indptr)), indices), values)
    return found
