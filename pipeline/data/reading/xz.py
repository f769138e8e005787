"""xz files in bounded memory: a file says how much unpacking it takes, up to 4 GB, and Python's reader believes it."""

from __future__ import annotations

import io
import lzma
from typing import IO, Any

MOST_MEMORY = 256 << 20  # xz -9 writes files that take 65 MB
CHUNK = 1 << 16  # bytes a call


class XzReader(io.BufferedReader):
    """What an xz file unpacks to, stream after stream; ``fileobj`` is the file."""

    def __init__(self, file: IO[bytes]) -> None:
        self.fileobj = file
        super().__init__(_Unpacked(file))


class _Unpacked(io.RawIOBase):
    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.decoder = file, _decoder()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as the next bytes of the file go."""
        while True:
            if self.decoder.eof:
                packed = self.decoder.unused_data.lstrip(b"\0") or self.file.read(CHUNK).lstrip(b"\0")
                if not packed:
                    return 0
                self.decoder = _decoder()
            else:
                packed = self.file.read(CHUNK) if self.decoder.needs_input else b""
                if not packed and self.decoder.needs_input:
                    raise EOFError("it ends before its end-of-stream marker")
            found = self.decoder.decompress(packed, len(buffer))
            if found:
                buffer[: len(found)] = found
                return len(found)


def _decoder() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(memlimit=MOST_MEMORY)
