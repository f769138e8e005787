"""A table that is written as it is made: Parquet or CSV by the name of the file, all at once at the end.

Row groups have the same number of rows whatever the pieces are that arrive, so the bytes of a file depend on its rows
alone; they wait in memory, and have fewer rows where there are columns of any length. In CSV text is quoted, a null is
empty, and numbers have as many digits as tell them apart.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from pipeline.errors import OutputError
from pipeline.files import replacing

GROUP = 1 << 20  # rows in a row group of Parquet
LONG = 1 << 16  # where there are texts: of a kilobyte they are 64 MB
PARQUET, CSV = (".parquet", ".pq"), (".csv", ".csv.gz")


def check_name(out: str | Path) -> None:
    """Raise OutputError if the name of a file does not say in which format it is to be written."""
    if not str(out).lower().endswith((*PARQUET, *CSV)):
        raise OutputError(f"{out}: neither .parquet nor .csv nor .csv.gz, which can be written; choose another --out")


@contextmanager
def table_to(out: str | Path, schema: pa.Schema, group: int, ids: bool = False) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that takes the next rows of a table; the file ``out`` is there, whole, at the end.

    Row groups of Parquet have ``group`` rows, or ``LONG`` where columns of the user's are among them (``ids``).
    """
    check_name(out)
    with replacing(Path(out)) as stream, ExitStack() as opened:
        parquet = str(out).lower().endswith(PARQUET)
        writer = opened.enter_context((_parquet if parquet else _csv)(stream, schema, str(out), opened))
        groups = _Groups(schema, min(group, LONG) if ids else group, writer.write_table)
        yield groups.take
        groups.write(groups.rows)


def _parquet(stream: BinaryIO, schema: pa.Schema, out: str, opened: ExitStack) -> Any:
    import pyarrow.parquet as pq  # noqa: PLC0415 - one of the two is needed

    return pq.ParquetWriter(stream, schema)


def _csv(stream: BinaryIO, schema: pa.Schema, out: str, opened: ExitStack) -> Any:
    import pyarrow.csv as pacsv  # noqa: PLC0415 - one of the two is needed

    packed = out.lower().endswith(".gz")
    sink = opened.enter_context(gzip.GzipFile("", "wb", 6, stream, mtime=0)) if packed else stream
    try:
        return pacsv.CSVWriter(sink, schema)
    except pa.ArrowException as error:
        said = str(error).splitlines()[0]
        raise OutputError(f"{out}: CSV cannot have these columns ({said}); write .parquet instead") from error


class _Groups:
    """Collects rows until there are as many as a row group has."""

    def __init__(self, schema: pa.Schema, size: int, write: Callable[[pa.Table], None]) -> None:
        self.schema, self.size, self._write = schema, size, write
        self.parts: list[pa.Table] = []
        self.rows = 0

    def take(self, part: pa.Table) -> None:
        """Take in the next rows."""
        self.parts.append(part)
        self.rows += part.num_rows
        if self.rows >= self.size:
            self.write(self.rows - self.rows % self.size)

    def write(self, rows: int) -> None:
        """Write so many of the rows that wait."""
        waiting = pa.concat_tables(self.parts) if self.parts else self.schema.empty_table()
        for first in range(0, rows, self.size):
            self._write(waiting.slice(first, min(self.size, rows - first)).combine_chunks())
        self.parts, self.rows = [waiting.slice(rows)], self.rows - rows
