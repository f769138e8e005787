"""CSV lines whose quotes do not fit, which Arrow reads as something: ``"1.5"2`` as 1.52, ``"1.5`` at the end as 1.5.

Nothing stands between the last quote of a quoted cell and the next separator. A quoted cell ends in its line; in a
table with text it may have line breaks, so that a record is several lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from pipeline.data.reading.files import open_plain
from pipeline.errors import DataError

_MARK = b"\xef\xbb\xbf"  # of UTF-8, at the start of a file


class Quotes:
    """Goes through lines, one after the other. ``since`` is the line where a cell began that is not closed yet, or 0.

    A line inside a quoted cell is looked at as if that cell began with it.
    """

    def __init__(self, separator: str, breaks: bool) -> None:
        between = re.escape(separator).encode()
        quoted = rb'"(?:[^"]|"")*+'
        cell = rb"(?>" + quoted + rb'"|[^"' + between + rb"][^" + between + rb"]*+|)"
        self.record = re.compile(cell + rb"(?:" + between + cell + rb")*+", re.DOTALL)
        self.begun = re.compile(rb"(?:" + cell + between + rb")*+" + quoted, re.DOTALL)
        self.breaks, self.since = breaks, 0

    def take(self, line: bytes, number: int) -> bool:
        """Look at a line without its end; tell whether it fits what stands before it."""
        if b'"' not in line:
            return True
        text = b'"' + line if self.since else line.removeprefix(_MARK)
        if self.record.fullmatch(text):
            self.since = 0
        elif self.breaks and self.begun.fullmatch(text):
            self.since = self.since or number
        else:
            return False
        return True


class CheckedLines:
    """A stream for Arrow to read, whose lines are looked at on the way."""

    closed = False

    def __init__(self, stream: IO[bytes], path: str, quotes: Quotes) -> None:
        self.stream, self.path, self.quotes = stream, path, quotes
        self.begun, self.lines = b"", 0

    def read(self, size: int = -1) -> bytes:
        """Read from the stream."""
        found = self.stream.read(size)
        text = self.begun + found
        end = text.rfind(b"\n") + 1
        self._check(text[:end])
        self.begun = text[end:]
        return found

    def finish(self) -> None:
        """Look at the last line, once all has been read."""
        self._check(self.begun)
        if self.quotes.since:
            raise self._error(self.quotes.since)

    def readable(self) -> bool:
        """Tell Arrow that it may read."""
        return True

    def close(self) -> None:
        """Leave the stream to whoever opened it."""

    def _check(self, text: bytes) -> None:
        for number, line in enumerate(text.splitlines(), self.lines + 1) if b'"' in text else ():
            if not self.quotes.take(line, number):
                raise self._error(self.quotes.since or number)
        self.lines += text.count(b"\n")

    def _error(self, line: int) -> DataError:
        where = "" if self.quotes.breaks else " in its line"
        problem = f"a quote is not closed{where}, or text follows it"
        return DataError(f"{problem}; correct the line", path=self.path, row=line, unit="line")


def line_of(path: str, record: int, quotes: Quotes, limit: int) -> int:
    """Return the line of a record (the header is one): Arrow passes over empty lines and does not count them."""
    line = 0
    for line, length in records(path, quotes, limit):  # noqa: B007 - the last one, should there be too few
        record -= 1 if length else 0
        if not record:
            break
    return line


def longest(path: str, quotes: Quotes, limit: int) -> tuple[int, int]:
    """Return length and line of the first record that is longer than ``limit``, else of the longest."""
    most, found = 0, 1
    for line, length in records(path, quotes, limit):
        if length > most:
            most, found = length, line
    return most, found


def records(path: str, quotes: Quotes, limit: int) -> Iterator[tuple[int, int]]:
    """Yield the line of every record and its length, as far as the first that is longer than ``limit``."""
    with open_plain(path) as stream:
        first, length, number = 1, 0, 0
        while length <= limit and (line := stream.readline(limit + 1)):
            number += 1
            bare = line.strip(b"\r\n")
            length += len(bare)
            quotes.take(bare, number)
            if not quotes.since and length <= limit:
                yield first, length
                first, length = number + 1, 0
        if length:
            yield first, length
