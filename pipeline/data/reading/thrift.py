"""Thrift's compact protocol, as far as Parquet's footers and page headers use it."""

from __future__ import annotations

from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
DAMAGE = (LookupError, TypeError, ValueError, RecursionError)  # what reading something else ends in


class Compact:
    """Reads Thrift's compact protocol: structs become dictionaries by field, lists lists."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def value(self, kind: int) -> Any:
        """Return the next value, of a type of the protocol."""
        if kind == STRUCT:
            return self._struct()
        if kind in (LIST, SET):
            return self._list()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind in (I16, I32, I64):
            coded = self._varint()
            return (coded >> 1) ^ -(coded & 1)
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind in (BYTE, DOUBLE):
            return self._bytes(1 if kind == BYTE else 8)
        raise ValueError(f"type {kind}")  # maps do not occur in footers

    def _struct(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            field = field + step if step else self.value(I16)
            found[field] = self.value(kind)
        return found

    def _list(self) -> list[Any]:
        head = self._byte()
        kind, count = head & 15, head >> 4
        if count == 15:
            count = self._varint()
        if kind in (TRUE, FALSE):
            return [self._byte() == TRUE for _ in range(count)]
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
