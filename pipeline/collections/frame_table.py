"""A frame as the first read of tables wants it (``data/tables/learn``): what its columns are called, and their rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pipeline.collections.part import Part
from pipeline.collections.tables import TableReader
from pipeline.data.reading.block import Origin
from pipeline.data.tables.encoding import Encoding
from pipeline.data.tables.report import report_lines
from pipeline.events import Listener, Note


class FrameTable:
    """The columns of a frame by their schema; and its rows, where they are here (``part``)."""

    untyped: frozenset[str] = frozenset()

    def __init__(self, path: str, schema: pa.Schema, reader: TableReader, part: Part | None = None) -> None:
        self.path, self.reader, self.part = path, reader, part
        self.layout = reader.layout
        self.types = {name: schema.field(name).type for name in schema.names}
        self.size = 0 if part is None else int(part.x.nbytes)

    def batches(self) -> Iterator[tuple[pa.Table, Origin, int]]:
        """Yield the columns of the layout, some rows at a time."""
        assert self.part is not None
        for batch, origin in self.reader.batches(self.part):
            yield batch, origin, int(batch.nbytes)


def tell(encoding: Encoding, listen: Listener) -> None:
    """Say what becomes of every column."""
    for line in report_lines(encoding):
        listen(Note(line))
