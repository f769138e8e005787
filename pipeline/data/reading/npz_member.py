"""One array of an npz file as a stream of entries, whatever its header says."""

from __future__ import annotations

import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np

from pipeline.data.reading.labels import LONGEST_LABEL
from pipeline.errors import DataError

_KINDS = {
    "data": "biuf",
    "weight": "biuf",
    "indices": "iu",
    "indptr": "iu",
    "shape": "iu",
    "y": "biufUS",
    "format": "US",
}
_WHAT = {"biuf": "numbers", "iu": "whole numbers", "biufUS": "numbers or text", "US": "text"}
LONGEST_TEXT = 4 * LONGEST_LABEL  # bytes; NumPy stores every text as long as the longest
FIRST_SURROGATE, LAST_SURROGATE, LARGEST_POINT = 0xD800, 0xDFFF, 0x10FFFF  # of Unicode; NumPy stores any 32 bits
_DAMAGE = (  # what zipfile, zlib and NumPy's reader of headers (an evaluated literal) raise for damaged bytes
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError),
    *(TypeError, LookupError, SyntaxError, tokenize.TokenError, OverflowError, RecursionError, MemoryError),
)


class NpzMember:
    """One array of the archive as a stream of entries."""

    def __init__(self, archive: zipfile.ZipFile, name: str, path: str) -> None:
        self.name, self.path = name, path
        with self._damage():
            self.stream: IO[bytes] = archive.open(f"{name}.npy")
            shape, self.dtype = _header(self.stream)
            stored = archive.getinfo(f"{name}.npy").file_size - self.stream.tell()
        if self.dtype.kind not in _KINDS[name] or len(shape) > 1:
            problem = f"'{name}' is an array of {self.dtype} with shape {shape}"
            raise DataError(f"{problem}; it must be one-dimensional, of {_WHAT[_KINDS[name]]}", path=path)
        if not 0 < self.dtype.itemsize <= LONGEST_TEXT:
            problem = f"the entries of '{name}' have {self.dtype.itemsize:,} bytes, not 1 to {LONGEST_TEXT:,}"
            raise DataError(f"{problem}; write it again as numbers or short text", path=path)
        self.length = int(shape[0]) if shape else 1
        if self.length < 0 or self.length * self.dtype.itemsize != stored:
            problem = f"'{name}' says it has {self.length} entries of {self.dtype}, but is {stored} bytes long"
            raise DataError(f"{problem}; write the file again", path=path)

    def read(self, count: int) -> np.ndarray:
        """Return the next entries."""
        size = count * self.dtype.itemsize
        with self._damage():
            data = self.stream.read(size)
        if len(data) != size:
            raise DataError(f"'{self.name}' ends too early; write the file again", path=self.path)
        if self.dtype.kind == "U":
            points = np.frombuffer(data, dtype=np.dtype(np.uint32).newbyteorder(self.dtype.byteorder))
            if ((points > LARGEST_POINT) | ((points >= FIRST_SURROGATE) & (points <= LAST_SURROGATE))).any():
                raise DataError(f"'{self.name}' is damaged (no Unicode text); write the file again", path=self.path)
        return np.frombuffer(data, dtype=self.dtype)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            said = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"'{self.name}' is damaged ({said}); write the file again", path=self.path) from error


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a header that Python 2 wrote is read, only more slowly
        shape, _, dtype = read(stream)
    return shape, dtype
