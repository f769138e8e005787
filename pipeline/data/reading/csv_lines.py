"""CSV lines whose quotes do not fit, which Arrow reads as something: ``"1.5"2`` as 1.52, ``"1.5`` at the end as 1.5.

A quoted cell begins and ends within its line, and nothing stands between its last quote and the next separator.
"""

from __future__ import annotations

import re
from typing import IO

from pipeline.errors import DataError

_MARK = b"\xef\xbb\xbf"  # of UTF-8, at the start of a file


class CheckedLines:
    """A stream for Arrow to read, whose lines are looked at on the way."""

    closed = False

    def __init__(self, stream: IO[bytes], path: str, separator: str = ",") -> None:
        self.stream, self.path = stream, path
        between = re.escape(separator).encode()
        cell = rb'(?>"(?:[^"]|"")*+"|[^"' + between + rb"][^" + between + rb"]*+|)"
        self.line = re.compile(cell + rb"(?:" + between + cell + rb")*+", re.DOTALL)
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

    def readable(self) -> bool:
        """Tell Arrow that it may read."""
        return True

    def close(self) -> None:
        """Leave the stream to whoever opened it."""

    def _check(self, text: bytes) -> None:
        for number, line in enumerate(text.splitlines(), self.lines + 1) if b'"' in text else ():
            if b'"' in line and not self.line.fullmatch(line.removeprefix(_MARK)):
                problem = "a quote is not closed in its line, or text follows it"
                raise DataError(f"{problem}; correct the line", path=self.path, row=number, unit="line")
        self.lines += text.count(b"\n")
