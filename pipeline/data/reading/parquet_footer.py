"""How many entries the lists of a Parquet file have, read off its footer.

pyarrow tells it too (``metadata.row_group(g).column(k).num_values``), but where the statistics there are damaged that
call ends the process: a C++ exception that nobody catches. So the few fields that are needed are read here. The footer
is a Thrift struct in the compact protocol: FileMetaData 4 (row groups) > RowGroup 1 (columns) > ColumnChunk 3 (its
metadata) > 3 (path in the schema) and 5 (number of values).
"""

from __future__ import annotations

from typing import IO, Any

from pipeline.errors import DataError

_END = 8  # the footer's length, and PAR1
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DAMAGE = (LookupError, TypeError, ValueError, RecursionError)


def list_entries(stream: IO[bytes], path: str, columns: tuple[str, ...]) -> list[int]:
    """Return the number of values in the longest of these columns, by row group."""
    size = stream.seek(0, 2)
    stream.seek(max(0, size - _END))
    length = int.from_bytes(stream.read(4), "little")
    stream.seek(max(0, size - _END - length))
    try:
        groups = _Compact(stream.read(length)).value(_STRUCT)[4]
        return [max((_entries(chunk, columns) for chunk in group[1]), default=0) for group in groups]
    except _DAMAGE as error:
        problem = f"the footer is damaged ({type(error).__name__})"
        raise DataError(f"is not a readable Parquet file ({problem}); write it again", path=path) from error


def _entries(chunk: dict[int, Any], columns: tuple[str, ...]) -> int:
    about = chunk[3]
    return int(about[5]) if str(about[3][0], "utf-8") in columns else 0


class _Compact:
    """Reads Thrift's compact protocol: structs become dictionaries by field, lists lists."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def value(self, kind: int) -> Any:
        """Return the next value, of a type of the protocol."""
        if kind == _STRUCT:
            return self._struct()
        if kind in (_LIST, _SET):
            return self._list()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_I16, _I32, _I64):
            coded = self._varint()
            return (coded >> 1) ^ -(coded & 1)
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in (_BYTE, _DOUBLE):
            return self._bytes(1 if kind == _BYTE else 8)
        raise ValueError(f"type {kind}")  # maps do not occur in footers

    def _struct(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            field = field + step if step else self.value(_I16)
            found[field] = self.value(kind)
        return found

    def _list(self) -> list[Any]:
        head = self._byte()
        kind, count = head & 15, head >> 4
        if count == 15:
            count = self._varint()
        if kind in (_TRUE, _FALSE):
            return [self._byte() == _TRUE for _ in range(count)]
        return [self.value(kind) for _ in range(count)]

    def _varint(self) -> int:
        found, shift = 0, 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.content):
            raise IndexError(self.at)
        return self.content[self.at - count : self.at]
