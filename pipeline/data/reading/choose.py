"""From what the user names to the sources that read it."""

from __future__ import annotations

from pipeline.data.reading.base import ReadOptions, Source
from pipeline.data.reading.files import expand, format_of, size_of
from pipeline.data.reading.svmlight import SvmlightSource
from pipeline.errors import NoRowsError


def open_source(path: str, options: ReadOptions) -> Source:
    """Return the source for one file; an empty or unreadable file is an error here, before anything is written."""
    if size_of(path) == 0:
        raise NoRowsError("the file is empty; remove it from the list or write it again", path=path)
    kind = format_of(path) if options.format == "auto" else options.format
    if kind == "svmlight":
        return SvmlightSource(path, options)
    if kind == "csv":
        from pipeline.data.reading.csv import CsvSource  # noqa: PLC0415 - slow to import: Arrow's reader and compute

        return CsvSource(path, options)
    if kind == "npz":
        from pipeline.data.reading.npz import NpzSource  # noqa: PLC0415 - as above

        return NpzSource(path, options)
    from pipeline.data.reading.parquet import ParquetSource  # noqa: PLC0415 - as above

    return ParquetSource(path, options)


def open_sources(paths: list[str], options: ReadOptions) -> list[Source]:
    """Open every file that the given paths, patterns, directories and URLs stand for, in the given order."""
    return [open_source(file, options) for path in paths for file in expand(path)]
