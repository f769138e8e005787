"""Files wherever they are: local paths, globs, directories of Parquet, and any fsspec URL, compressed or not."""

from __future__ import annotations

import bz2
import errno
import glob
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pipeline.data.reading.xz import MOST_MEMORY, XzReader
from pipeline.data.stores.located import explain, file_system, is_url, reason
from pipeline.errors import DataError

_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", XzReader))
_SUFFIXES = (".gz", ".bz2", ".xz")
FILE_SUFFIXES = (*_SUFFIXES, ".parquet", ".pq", ".npz", ".csv", ".tsv", ".svm", ".libsvm", ".txt")
_OTHERS = (  # what files of other kinds begin with, where a name does not tell
    (b"ARROW1", "an Arrow file, which is not read; write it as Parquet"),
    (b"ORC", "an ORC file, which is not read; write it as Parquet"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstandard, which is not read; unpack it, or pack it with gzip"),
    (b"\xff\xfe", "text in UTF-16; write it as UTF-8"),
    (b"\xfe\xff", "text in UTF-16; write it as UTF-8"),
)
_XZ_MEMORY = "Memory usage limit exceeded"
_BZ2_DAMAGED = "Invalid data stream"  # bz2 has no error of its own


def expand(path: str) -> list[str]:
    """Return the files a user's SRC stands for, in sorted order: a file, a glob, a directory of Parquet files."""
    files = _expand_url(path) if is_url(path) else _expand_local(path)
    if not files:
        raise DataError("no input files there; name a file, a pattern or a directory of Parquet files", path=path)
    return files


def _expand_local(path: str) -> list[str]:
    here = Path(path)
    if is_folder(path):
        return sorted(str(f) for f in here.rglob("*") if f.is_file() and _is_part(f.relative_to(here).parts))
    if glob.has_magic(path) and status_of(path) is None:
        return sorted(glob.glob(path, recursive=True))  # noqa: PTH207
    return [path]


def _expand_url(url: str) -> list[str]:
    with _url_errors(url):
        fs, inner = file_system(url)
        if fs.isdir(inner):
            root = len(inner.rstrip("/"))
            found = [f for f in fs.find(inner) if _is_part(f[root:].strip("/").split("/"))]
        elif glob.has_magic(inner) and not fs.exists(inner):
            found = fs.glob(inner)
        else:
            return [url]
        return sorted(_readdressed(url, f, fs) for f in found)


def _readdressed(url: str, inner: str, fs: Any) -> str:
    """Return the address of another file of the same file system; ``zip://a::file.zip`` keeps its archive."""
    first, chained, archive = url.partition("::")
    return (
        f"{first.partition('://')[0]}://{inner}::{archive}" if chained and is_url(first) else fs.unstrip_protocol(inner)
    )


def size_of(path: str) -> int:
    """Return the size in bytes, or raise a DataError saying why the file cannot be read."""
    if is_url(path):
        with _url_errors(path):
            fs, inner = file_system(path)
            size = fs.size(inner)
        if size is None:
            raise DataError("the server does not tell its size; download it and name the local file", path=path)
        return int(size)
    status = status_of(path)
    if status is None:
        raise DataError("cannot be read (no such file); check the path and its permissions", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"is {_kind(status.st_mode)}, not a file; name a file with rows", path=path)
    return status.st_size


def status_of(path: str) -> os.stat_result | None:
    """Return what the system knows of a local path, None if nothing is there; what may not be seen is an error."""
    if not path:  # of a shell's variable that is not set: Path takes it for the folder one is in
        raise DataError("the name of the data is empty; name a file or a folder (this one is .)")
    try:
        return Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        said = "its links go in a circle" if getattr(error, "errno", 0) == errno.ELOOP else reason(error)
        raise DataError(f"cannot be read ({said}); check the path and its permissions", path=path) from error


def is_folder(path: str) -> bool:
    """Whether a local path is a directory that may be seen."""
    status = None if is_url(path) else status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((name for test, name in kinds if test(mode)), "a device")


def _opened_url(url: str) -> Any:
    import fsspec  # noqa: PLC0415 - slow to import, and most files are here

    return fsspec.open(url, "rb")


@contextmanager
def open_binary(path: str) -> Iterator[IO[bytes]]:
    """Open for reading as it lies there; trouble, now or while reading, is a DataError."""
    if not is_url(path):
        size_of(path)  # to open a pipe would wait for whoever writes into it
    try:
        with _opened_url(path) if is_url(path) else Path(path).open("rb") as stream:
            yield stream
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        if _XZ_MEMORY in str(error):
            problem = f"takes more than {MOST_MEMORY:,} bytes of memory to unpack"
            raise DataError(f"{problem}; pack it again with xz -9 or less", path=path) from error
        raise DataError(f"the compressed file is truncated or damaged ({error}); get it again", path=path) from error
    except (OSError, ImportError) as error:
        if str(error) == _BZ2_DAMAGED:
            raise DataError("the compressed file is damaged; get it again", path=path) from error
        raise DataError(f"cannot be read ({reason(error)}); check the file and its permissions", path=path) from error


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


@contextmanager
def _url_errors(url: str) -> Iterator[None]:
    """File systems of other packages raise what they like: here all of it becomes one line."""
    try:
        yield
    except Exception as error:
        raise DataError(explain(url, error), path=url) from error


def position(stream: IO[bytes], size: int) -> int:
    """Return how many of the file's bytes have been read, compressed or not, for the progress bar."""
    raw = getattr(stream, "fileobj", None) or getattr(stream, "_fp", None) or stream
    return min(int(raw.tell()), size)


def too_long(path: str, line: int, max_line: int) -> DataError:
    """Return the error for a line that is longer than lines may be."""
    problem = f"the line is longer than {max_line:,} bytes"
    return DataError(f"{problem}; correct the file, or raise --max-line", path=path, row=line, unit="line")


def format_of(path: str) -> str:
    """Tell the format by the file's name, else by its first bytes; text without a telling name is svmlight."""
    name = _name(path).lower().rstrip("/")
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    known = ((".parquet", "parquet"), (".pq", "parquet"), (".npz", "npz"), (".csv", "csv"), (".tsv", "csv"))
    for suffix, kind in known:
        if name.endswith(suffix):
            return kind
    with open_binary(path) as raw:
        head = raw.read(6)
    for magic, what in _OTHERS:
        if head.startswith(magic):
            raise DataError(f"is {what}", path=path)
    return "parquet" if head.startswith(b"PAR1") else "npz" if head.startswith(b"PK\x03\x04") else "svmlight"


def _name(path: str) -> str:
    """Return the file's own name, without what a URL may put around it (an archive, a query)."""
    if not is_url(path):
        return path
    with _url_errors(path):
        return str(file_system(path)[1]).partition("?")[0]


def _is_part(parts: Sequence[str]) -> bool:
    """Whether a file, named from its directory on, holds rows: Parquet, and nothing hidden or temporary."""
    return parts[-1].lower().endswith((".parquet", ".pq")) and not any(part.startswith(("_", ".")) for part in parts)
