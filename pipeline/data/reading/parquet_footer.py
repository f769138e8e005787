"""What Parquet says of its own sizes, looked at before Arrow relies on it.

pyarrow tells how many values a column has (``metadata.row_group(g).column(k).num_values``), but where the statistics
there are damaged that call ends the process: a C++ exception that nobody catches. And it takes the memory that a page's
header asks for, up to 2 GB, before it finds that the page is not there. So the few fields that are needed are read
here: FileMetaData 4 (row groups) > RowGroup 1 (columns) > ColumnChunk 3 (its metadata) > 3 (path in the schema),
5 (number of values), 6 and 7 (bytes, plain and as stored), 9 and 11 (where its pages begin); PageHeader 2 and 3 (bytes,
plain and as stored).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from pipeline.data.reading.thrift import DAMAGE, STRUCT, Compact
from pipeline.errors import DataError

_END = 8  # the footer's length, and PAR1
_HEADER = 1 << 16  # bytes that a page's header may have: its statistics hold a smallest and a largest value
MOST_CHUNKS = 10_000  # columns times row groups whose pages are looked at: a second's work; wider tables go unchecked
MOST_PAGE = 64 << 20  # bytes that a page may have without being asked twice: usual ones have one


def list_entries(stream: IO[bytes], path: str, columns: tuple[str, ...]) -> list[int]:
    """Return the number of values in the longest of these columns, by row group."""
    try:
        return [max((_entries(chunk, columns) for chunk in group[1]), default=0) for group in _groups(stream)]
    except DAMAGE as error:
        raise _damaged(path, f"the footer is damaged ({type(error).__name__})") from error


def check_pages(stream: IO[bytes], path: str) -> None:
    """Raise DataError for a large page that has more bytes than its column is said to have altogether.

    Whatever else is wrong is Arrow's to find.
    """
    for size, column in _pages(stream):
        if size > MOST_PAGE and size > column:
            raise _damaged(path, f"a page of {size:,} bytes in a column of {column:,}")


def _pages(stream: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the sizes of pages, plain and as stored, each with that of its column, as long as they make sense."""
    try:
        chunks = [chunk[3] for group in _groups(stream) for chunk in group[1]]
        for about in chunks if len(chunks) <= MOST_CHUNKS else []:
            at = min(about[9], about.get(11) or about[9])
            end = at + about[7]
            while at < end:
                stream.seek(at)
                header = Compact(stream.read(_HEADER))
                found = header.value(STRUCT)
                yield int(found[2]), int(about[6])
                yield int(found[3]), int(about[7])
                at += header.at + max(0, found[3])
    except DAMAGE:
        return


def _groups(stream: IO[bytes]) -> list[dict[int, Any]]:
    size = stream.seek(0, 2)
    stream.seek(max(0, size - _END))
    length = int.from_bytes(stream.read(4), "little")
    stream.seek(max(0, size - _END - length))
    return list(Compact(stream.read(length)).value(STRUCT)[4])


def _entries(chunk: dict[int, Any], columns: tuple[str, ...]) -> int:
    about = chunk[3]
    return int(about[5]) if str(about[3][0], "utf-8") in columns else 0


def _damaged(path: str, problem: str) -> DataError:
    return DataError(f"is not a readable Parquet file ({problem}); write it again", path=path)
