"""Files wherever they are: local paths, globs, directories of Parquet, and any fsspec URL, compressed or not."""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import fsspec

from pipeline.errors import DataError

_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))
_SUFFIXES = (".gz", ".bz2", ".xz")


def is_url(path: str) -> bool:
    """Tell a URL from a local path."""
    return "://" in path


def expand(path: str) -> list[str]:
    """Return the files a user's SRC stands for, in sorted order: a file, a glob, a directory of Parquet files."""
    if is_url(path):
        try:
            fs, inner = fsspec.core.url_to_fs(path)
            if fs.isdir(inner):
                found = [f for f in fs.find(inner) if _is_part(f, inner)]
            else:
                found = fs.glob(inner) if glob.has_magic(inner) else [inner]
        except (OSError, ValueError, ImportError) as error:
            raise DataError(f"cannot be listed ({error}); check the address", path=path) from error
        files = sorted(fs.unstrip_protocol(f) for f in found)
    elif Path(path).is_dir():
        files = sorted(str(f) for f in Path(path).rglob("*") if f.is_file() and _is_part(str(f), path))
    else:
        files = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) and not Path(path).exists() else [path]  # noqa: PTH207
    if not files:
        raise DataError("no input files there; name a file, a pattern or a directory of Parquet files", path=path)
    return files


def size_of(path: str) -> int:
    """Return the size in bytes, or raise a DataError saying why the file cannot be read."""
    try:
        if is_url(path):
            fs, inner = fsspec.core.url_to_fs(path)
            return int(fs.size(inner) or 0)
        return Path(path).stat().st_size
    except (OSError, ValueError, ImportError) as error:
        raise DataError(f"cannot be read ({_reason(error)}); check the path and its permissions", path=path) from error


@contextmanager
def open_binary(path: str) -> Iterator[IO[bytes]]:
    """Open for reading as it lies there; trouble, now or while reading, is a DataError."""
    try:
        with fsspec.open(path, "rb") if is_url(path) else Path(path).open("rb") as stream:
            yield stream
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(f"the compressed file is truncated or damaged ({error}); get it again", path=path) from error
    except (OSError, ImportError) as error:
        raise DataError(f"cannot be read ({_reason(error)}); check the file and its permissions", path=path) from error


@contextmanager
def open_plain(path: str) -> Iterator[IO[bytes]]:
    """Open for reading and decompress gzip, bzip2 and xz, known by their first bytes."""
    with open_binary(path) as raw:
        head = raw.read(6)
        raw.seek(0)
        opener: Any = next((opener for magic, opener in _OPENERS if head.startswith(magic)), None)
        if opener is None:
            yield raw
        else:
            with opener(raw) as stream:
                yield stream


def position(stream: IO[bytes], size: int) -> int:
    """Return how many of the file's bytes have been read, compressed or not, for the progress bar."""
    raw = getattr(stream, "fileobj", None) or getattr(stream, "_fp", None) or stream
    return min(int(raw.tell()), size)


def format_of(path: str) -> str:
    """Tell the format by the file's name, else by its first bytes; text without a telling name is svmlight."""
    name = path.lower().rstrip("/")
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    for suffix, known in ((".parquet", "parquet"), (".pq", "parquet"), (".npz", "npz"), (".csv", "csv")):
        if name.endswith(suffix):
            return known
    with open_binary(path) as raw:
        head = raw.read(4)
    return "parquet" if head == b"PAR1" else "npz" if head == b"PK\x03\x04" else "svmlight"


def _is_part(path: str, root: str) -> bool:
    inner = path[len(root) :].strip("/").split("/")
    return path.lower().endswith((".parquet", ".pq")) and not any(part.startswith(("_", ".")) for part in inner)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error).splitlines()[0] if str(error) else type(error).__name__
