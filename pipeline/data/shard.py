"""One shard: an Arrow IPC file with a single uncompressed record batch, memory-mapped and read without a copy."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.data.digest import Lanes, digest_rows, digest_text
from pipeline.data.rows import Rows
from pipeline.errors import DatasetError
from pipeline.relief import on_shortage


@dataclass(frozen=True)
class ShardInfo:
    """What the manifest knows of a shard. ``digest`` is that of its rows, ``sha256`` that of its file."""

    name: str
    rows: int
    nnz: int
    bytes: int
    values: str
    positives: int
    sha256: str
    modified: int
    digest: Lanes

    def to_json(self) -> dict[str, object]:
        """Return the form kept in the manifest."""
        return {**asdict(self), "digest": digest_text(self.digest)}

    @classmethod
    def from_json(cls, item: dict) -> ShardInfo:
        """Read the form kept in the manifest."""
        text = item["digest"]
        return cls(**{**item, "digest": (int(text[:16], 16), int(text[16:], 16))})


def shard_name(number: int) -> str:
    """Return the file name of the shard with this number."""
    return f"shard-{number:05d}.arrow"


def is_shard_name(name: str) -> bool:
    """Tell the file names of shards."""
    return re.fullmatch(r"shard-\d+\.arrow", name) is not None


def number_of(name: str) -> int:
    """Return the number in a shard's file name."""
    return int(name.removeprefix("shard-").removesuffix(".arrow"))


def write_shard(directory: Path, name: str, rows: Rows) -> ShardInfo:
    """Write a shard under a temporary name, force it to disk, then rename it."""
    offsets = pa.array(rows.indptr.astype(np.int32, copy=False))
    columns = {
        "label": pa.array(rows.labels),
        "cost": pa.array(rows.costs),
        "norm": pa.array(rows.norms),
        "indices": pa.ListArray.from_arrays(offsets, pa.array(rows.indices)),
        "values": pa.ListArray.from_arrays(offsets, pa.array(rows.values)),
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    path, temporary = directory / name, directory / f"{name}.tmp"
    with temporary.open("wb") as stream:
        with pa.ipc.new_file(stream, batch.schema) as writer:
            writer.write_batch(batch)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    status = path.stat()
    return ShardInfo(
        name=name,
        rows=rows.n_rows,
        nnz=rows.nnz,
        bytes=status.st_size,
        values=str(rows.values.dtype),
        positives=int(np.count_nonzero(rows.labels == 1)),
        sha256=checksum(path),
        modified=status.st_mtime_ns,
        digest=digest_rows(rows),
    )


def read_shard(path: str, n_features: int) -> Rows:
    """Map a shard into memory and return its rows as views of the file.

    The mappings of the last shards stay open, so that a process that passes over them again need not fault every page
    in anew; they count as file cache, not as memory of the process (but see ``engine.on_worker``).
    """
    try:
        status = Path(path).stat()
        return _kept_map(path, n_features, (status.st_ino, status.st_size, status.st_mtime_ns))
    except (OSError, pa.ArrowException, LookupError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise DatasetError(f"{path}: the shard cannot be read ({reason}); ingest it again") from error


@lru_cache(maxsize=512)
def _kept_map(path: str, n_features: int, _identity: tuple[int, int, int]) -> Rows:
    return map_shard(path, n_features)


def forget_maps() -> None:
    """Close the mappings that nobody uses: a file that was removed takes up the disk as long as it is mapped."""
    _kept_map.cache_clear()


on_shortage(forget_maps)


def map_shard(path: str, n_features: int) -> Rows:
    """Map a shard that is about to be replaced: kept open, the old file would go on taking up the disk."""
    batch = pa.ipc.open_file(pa.memory_map(path)).get_batch(0)
    indices, values = batch.column("indices"), batch.column("values")
    return Rows(
        indptr=indices.offsets.to_numpy(),
        indices=indices.values.to_numpy(),
        values=values.values.to_numpy(),
        labels=batch.column("label").to_numpy(),
        costs=batch.column("cost").to_numpy(),
        norms=batch.column("norm").to_numpy(),
        n_features=n_features,
    )


def checksum(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_shard(directory: Path, info: ShardInfo, full: bool = False) -> None:
    """Raise DatasetError, naming the shard, if it is missing, truncated or altered.

    The cheap check compares size and time of change with the manifest and reads the file only where the time differs (a
    copied directory, or an altered shard); the full check always reads it.
    """
    path = directory / info.name
    remedy = f"restore it from a backup or ingest the data again: svmsieve ingest ... --out {directory} --overwrite"
    try:
        status = path.stat()
        if status.st_size != info.bytes:
            raise DatasetError(f"{path}: the shard has {status.st_size} bytes instead of {info.bytes}; {remedy}")
        if (full or status.st_mtime_ns != info.modified) and checksum(path) != info.sha256:
            raise DatasetError(f"{path}: the shard was altered (its checksum differs); {remedy}")
    except FileNotFoundError as error:
        raise DatasetError(f"{path}: the shard is missing; {remedy}") from error
    except OSError as error:
        raise DatasetError(f"{path}: the shard cannot be read ({error.strerror}); {remedy}") from error
