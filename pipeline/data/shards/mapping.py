"""Shard files of this machine as rows: proved to be what the manifest says, mapped into memory, kept open.

A file is input. Before Arrow looks into it, its sha256 is compared, the first time that a process reads it; what Arrow
finds in it is checked before a kernel may use it (``sound``). Both are remembered for the file as it is: a file that
was written or touched since is another one.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.data.shards.ids import IDS, has_form
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.shard import ShardInfo, checksum
from pipeline.data.shards.sound import fault_of
from pipeline.errors import DatasetError
from pipeline.relief import on_shortage

VARIABLE = "SVMSIEVE_CHECKSUM"  # 0: shards are read without comparing their checksums
KEPT_MAPS = 8192  # of the 65,530 that Linux allows a process
KEPT_FACTS = 1 << 16  # files that are known to be as they should
TICK = 20_000_000  # nanoseconds; two changes of a file within a tick of the system's clock (at most 10 ms) look alike
_COLUMNS, _GROUP = ("label", "cost", "norm", "indices", "values"), ("group", pa.uint64())
_LISTS = (pa.list_(pa.float32()), pa.list_(pa.float64()))
_TYPES = (pa.float64(), pa.float64(), pa.list_(pa.int32()))
_SIGNS, _CODES = pa.int8(), pa.int32()

_facts: set[tuple[object, ...]] = set()


class AlteredError(DatasetError):
    """A shard whose checksum differs from the manifest's."""


class GoneError(DatasetError):
    """A shard that was there when the data set was opened."""


def wants_checksums() -> bool:
    """Whether a run compares the checksum of every shard that it reads; decided where the data set is opened."""
    return os.environ.get(VARIABLE, "1") != "0"


def read_shard(path: str, n_features: int, sha256: str = "", used: bool = False, classes: int = 0) -> Rows:
    """Map a shard into memory and return its rows as views of the file; ``sha256`` "" means that it is not compared.

    The mappings of the last shards stay open, so that a process that passes over them again need not fault every page
    in anew; they count as file cache, not as memory of the process (but see ``engine.on_worker``). ``used`` says that
    whoever reads the file touches it, so that a change of its status means nothing. Labels are codes of so many
    ``classes``; 0 means that they are signs.
    """
    try:
        status = regular(Path(path))
        identity = _identity(status)[: 3 if used else 4]
        if sha256:
            _once(path, identity, sha256, lambda: _prove(path, sha256, opened=True))
        return _kept_map(path, n_features, identity, classes)
    except FileNotFoundError as error:
        problem = "the shard is gone: the data set was changed since it was opened"
        raise GoneError(f"{path}: {problem}; run again") from error
    except (OSError, pa.ArrowException, LookupError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise DatasetError(f"{path}: the shard cannot be read ({reason}); ingest it again") from error


@lru_cache(maxsize=KEPT_MAPS)
def _kept_map(path: str, n_features: int, identity: tuple[int, ...], classes: int) -> Rows:
    rows = map_shard(path, n_features)
    _once(path, identity, (n_features, classes), lambda: _refuse_unsound(path, rows, classes))
    return rows


def forget_maps() -> None:
    """Close the mappings that nobody uses: a file that was removed takes up the disk as long as it is mapped."""
    _kept_map.cache_clear()


on_shortage(forget_maps)


def map_shard(path: str, n_features: int) -> Rows:
    """Map a shard that this process wrote; nothing but its form is checked, and nobody keeps it open."""
    with pa.memory_map(path) as file:
        content = file.read_buffer()  # keeps the mapping, but no file descriptor
    batch = _batch(content)
    indices, values = batch.column("indices"), batch.column("values")
    return Rows(
        indptr=_view(indices.offsets),
        indices=_view(indices.values),
        values=_view(values.values),
        labels=_view(batch.column("label")),
        costs=_view(batch.column("cost")),
        norms=_view(batch.column("norm")),
        n_features=n_features,
        groups=_view(batch.column("group")) if "group" in batch.schema.names else None,
        ids=batch.column(IDS) if IDS in batch.schema.names else None,
    )


def _view(array: pa.Array) -> np.ndarray:
    """Return numbers as a read-only view of their buffer: what ``to_numpy`` does after importing pandas (0.4 s)."""
    numbers = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.empty(0, numbers)
    return np.frombuffer(array.buffers()[1], numbers, len(array), array.offset * numbers.itemsize)


def _batch(content: pa.Buffer) -> pa.RecordBatch:
    """Return the one record batch of a shard, if it has the form of one and its buffers lie within the file."""
    reader = pa.ipc.open_file(content)
    if reader.num_record_batches != 1:
        raise pa.ArrowInvalid(f"{reader.num_record_batches} record batches instead of one")
    names, types = tuple(reader.schema.names), tuple(reader.schema.types)
    if names[-1:] == (IDS,) and has_form(types[-1]):  # what is in them is checked by who asks for them
        names, types = names[:-1], types[:-1]
    if names[-1:] == _GROUP[:1] and types[-1] == _GROUP[1]:
        names, types = names[:-1], types[:-1]
    fits = types[:1] in ((_SIGNS,), (_CODES,)) and types[1:-1] == _TYPES and types[-1] in _LISTS
    if names != _COLUMNS or not fits:
        raise pa.ArrowInvalid("it has other columns than a shard")
    batch = reader.get_batch(0)
    batch.validate()
    numbers = batch.columns[: len(names)] + [column.values for column in batch.columns[3:5]]
    if any(array.null_count for array in numbers):
        raise pa.ArrowInvalid("values are missing")
    return batch


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _once(path: str, identity: tuple[int, ...], fact: object, prove: Callable[[], None]) -> None:
    """Have something proved of a file as it is, unless it was.

    A file that changed a moment ago may change again without a trace, so what is proved of it is not remembered.
    """
    if (path, identity, fact) in _facts:
        return
    age = abs(time.time_ns() - identity[-1])
    prove()
    if age > TICK:
        if len(_facts) >= KEPT_FACTS:
            _facts.clear()
        _facts.add((path, identity, fact))


def _prove(path: str, sha256: str, opened: bool = False) -> None:
    if checksum(Path(path)) != sha256:
        said = "was replaced since the data set was opened, or altered" if opened else "was altered"
        cure = f"{'run again, or ' if opened else ''}{_remedy(Path(path).parent)}"
        raise AlteredError(f"{path}: the shard {said} (its checksum differs); {cure}")


def _refuse_unsound(path: str, rows: Rows, classes: int) -> None:
    wanted = np.int32 if classes else np.int8
    fault = fault_of(rows, classes) if rows.labels.dtype == wanted else f"its labels are {rows.labels.dtype.name}"
    if fault is not None:
        raise DatasetError(f"{path}: the shard is damaged ({fault}); {_remedy(Path(path).parent)}")


def _remedy(directory: Path) -> str:
    return f"restore it from a backup or ingest the data again: svmsieve ingest ... --out {directory} --overwrite"


def regular(path: Path) -> os.stat_result:
    """Return the status of a shard's file; a link may lead to another file of the same directory, not out of it."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        if path.resolve().parent != path.parent.resolve():
            raise DatasetError(f"{path}: is a link that leaves the directory; put the shard itself there")
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise DatasetError(f"{path}: is not a file; put the shard there")
    return status


def is_as_written(directory: Path, info: ShardInfo) -> bool:
    """Tell whether a shard has the time of change that the manifest says: else it was copied, or altered.

    Raise DatasetError, naming the shard, if it is missing or has another size.
    """
    path = directory / info.name
    with _named(path):
        status = regular(path)
    if status.st_size != info.bytes:
        problem = f"the shard has {status.st_size} bytes instead of {info.bytes}"
        raise DatasetError(f"{path}: {problem}; {_remedy(directory)}")
    return status.st_mtime_ns == info.modified


def prove_shard(directory: Path, info: ShardInfo, again: bool = False) -> None:
    """Raise DatasetError, naming the shard, if its checksum differs; read it ``again`` even if this process did."""
    path = directory / info.name
    with _named(path):
        identity = _identity(regular(path))
        if again:
            _facts.discard((str(path), identity, info.sha256))
        _once(str(path), identity, info.sha256, lambda: _prove(str(path), info.sha256))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DatasetError(f"{path}: the shard is missing; {_remedy(path.parent)}") from error
    except OSError as error:
        raise DatasetError(f"{path}: the shard cannot be read ({error.strerror}); {_remedy(path.parent)}") from error
