"""A zip file of a few small entries, made at once: to the byte what ``zipfile`` writes entry by entry, in a tenth of
the time. A path of small models spends a tenth of a step there.

Entries are stored as they are; sizes stand in a ZIP64 field of each entry's header, as ``force_zip64`` has it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

_LOCAL = struct.Struct("<4s2B4H3L2H2H2Q")
_ENTRY = struct.Struct("<4s4B4H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_VERSION, _UNIX, _MODE = 45, 3, 0o600 << 16  # ZIP64; whose file modes follow; a file that its owner reads and writes
_DATE = 0x21  # 1 January 1980, the first day that there is
_IN_FIELD = 0xFFFFFFFF  # "see the ZIP64 field"


def stored_zip(entries: Sequence[tuple[str, bytes]]) -> bytes:
    """Return the zip file with these names and contents, less than 2 GB in all."""
    parts, directory, at = list[bytes](), list[bytes](), 0
    for name, content in entries:
        title, size, crc = name.encode("ascii"), len(content), zlib.crc32(content)
        sizes = (_IN_FIELD, _IN_FIELD, len(title), 20)
        head = _LOCAL.pack(b"PK\3\4", _VERSION, 0, 0, 0, 0, _DATE, crc, *sizes, 1, 16, size, size)
        parts += [head[:30], title, head[30:], content]
        about = (_VERSION, _UNIX, _VERSION, 0, 0, 0, 0, _DATE, crc, size, size, len(title), 0, 0, 0, 0, _MODE, at)
        directory += [_ENTRY.pack(b"PK\1\2", *about), title]
        at += len(head) + len(title) + size
    length = sum(map(len, directory))
    return b"".join([*parts, *directory, _END.pack(b"PK\5\6", 0, 0, len(entries), len(entries), length, at, 0)])
