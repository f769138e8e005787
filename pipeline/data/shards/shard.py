"""One shard: an Arrow IPC file with a single uncompressed record batch, made to be mapped (``mapping``)."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.data.shards.digest import Lanes, digest_rows, digest_text
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.strict import LARGEST, Form, Must, fitting, one_among, whole_between
from pipeline.files import atomic

ROW_BYTES = 1 + 8 + 8 + 4 + 4  # label, cost, norm, and the offsets of indices and values


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
        return {key: getattr(self, key) for key in _FORM} | {"digest": digest_text(self.digest)}

    @cached_property
    def line(self) -> str:
        """The line of the manifest."""
        return f"  {json.dumps(self.to_json())}"

    @classmethod
    def from_json(cls, item: object, where: str = "") -> ShardInfo:
        """Read the form kept in the manifest; ValueError says which value cannot be."""
        found = fitting(item, _FORM, where)
        least = found["rows"] * ROW_BYTES + found["nnz"] * (4 + int(found["values"][-2:]) // 8)
        if found["bytes"] < least or found["positives"] > found["rows"]:
            raise ValueError(f"{where} has other numbers than a shard can have")
        text = found["digest"]
        return cls(**{**found, "digest": (int(text[:16], 16), int(text[16:], 16))})


_NAME = re.compile(r"shard-([0-9]{1,19})\.arrow")
LARGEST_NUMBER = 16**15  # behind a URL the number is 15 digits of the checksum


def _hexadecimal(digits: int) -> Must:
    form = re.compile(f"[0-9a-f]{{{digits}}}")
    return Must(lambda value: type(value) is str and form.fullmatch(value) is not None, f"{digits} hexadecimal digits")


_FORM: Form = {
    "name": Must(lambda value: type(value) is str and is_shard_name(value), "the name of a shard"),
    "rows": whole_between(1, 2**31 - 2),
    "nnz": whole_between(0, 2**31 - 1),
    "bytes": whole_between(1, LARGEST),
    "values": one_among("float32", "float64"),
    "positives": whole_between(0, 2**31 - 2),
    "sha256": _hexadecimal(64),
    "modified": whole_between(-LARGEST, LARGEST),
    "digest": _hexadecimal(32),
}


def shard_name(number: int) -> str:
    """Return the file name of the shard with this number."""
    return f"shard-{number:05d}.arrow"


def is_shard_name(name: str) -> bool:
    """Tell the file names of shards."""
    found = _NAME.fullmatch(name)
    return found is not None and int(found[1]) < LARGEST_NUMBER


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
    path = directory / name
    with atomic(path) as stream, pa.ipc.new_file(stream, batch.schema) as writer:
        writer.write_batch(batch)
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


def checksum(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
