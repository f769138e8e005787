"""One shard: an Arrow IPC file with a single uncompressed record batch, made to be mapped (``mapping``)."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.data.shards.digest import Lanes, digest_rows, digest_text
from pipeline.data.shards.ids import IDS
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.strict import LARGEST, Form, Must, fitting, list_of, one_among, whole_between
from pipeline.dataclass import dataclass
from pipeline.files import atomic

ROW_BYTES = 1 + 8 + 8 + 4 + 4  # label, cost, norm, and the offsets of indices and values
CODE_BYTES = 4  # of a label that is the code of a class


@dataclass(frozen=True)
class ShardInfo:
    """What the manifest knows of a shard. ``digest`` is that of its rows, ``sha256`` that of its file.

    Labels are signs, of which ``positives`` are +1; or codes of classes, of which there are so many each (``counts``).
    """

    name: str
    rows: int
    nnz: int
    bytes: int
    values: str
    positives: int
    sha256: str
    modified: int
    digest: Lanes
    counts: tuple[int, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the form kept in the manifest."""
        return {key: getattr(self, key) for key in _form(len(self.counts))} | {"digest": digest_text(self.digest)}

    def counted(self, classes: int) -> ShardInfo:
        """Return it with counts for so many classes, of which it has none of the last ones."""
        return replace(self, counts=self.counts + (0,) * (classes - len(self.counts))) if classes else self

    @cached_property
    def line(self) -> str:
        """The line of the manifest."""
        return f"  {json.dumps(self.to_json())}"

    @classmethod
    def from_json(cls, item: object, where: str = "", classes: int = 0) -> ShardInfo:
        """Read the form kept in the manifest; ValueError says which value cannot be. ``classes`` 0 means signs."""
        found = fitting(item, _form(classes), where)
        row = ROW_BYTES - 1 + CODE_BYTES if classes else ROW_BYTES
        least = found["rows"] * row + found["nnz"] * (4 + int(found["values"][-2:]) // 8)
        if classes and (len(found["counts"]) != classes or sum(found["counts"]) != found["rows"]):
            raise ValueError(f"{where}.counts are not those of its rows in {classes} classes")
        if found["bytes"] < least or found.get("positives", 0) > found["rows"]:
            raise ValueError(f"{where} has other numbers than a shard can have")
        text, counts = found["digest"], tuple(found.get("counts", ()))
        lanes = (int(text[:16], 16), int(text[16:], 16))
        return cls(**{"positives": 0, **found, "digest": lanes, "counts": counts})


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
_COUNTS = list_of(whole_between(0, 2**31 - 2))


def _form(classes: int) -> Form:
    """Return what a shard's line has: signs are counted otherwise than the codes of classes."""
    if not classes:
        return _FORM
    return {("counts" if key == "positives" else key): must for key, must in _FORM.items()} | {"counts": _COUNTS}


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


def write_shard(directory: Path, name: str, rows: Rows, classes: int = 0) -> ShardInfo:
    """Write a shard under a temporary name, force it to disk, then rename it; ``classes`` 0 means labels -1/+1."""
    offsets = pa.array(rows.indptr.astype(np.int32, copy=False))
    columns = {
        "label": pa.array(rows.labels),
        "cost": pa.array(rows.costs),
        "norm": pa.array(rows.norms),
        "indices": pa.ListArray.from_arrays(offsets, pa.array(rows.indices)),
        "values": pa.ListArray.from_arrays(offsets, pa.array(rows.values)),
    }
    if rows.groups is not None:
        columns["group"] = pa.array(rows.groups)
    if rows.ids is not None:
        columns[IDS] = rows.ids
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
        positives=0 if classes else int(np.count_nonzero(rows.labels == 1)),
        sha256=checksum(path),
        modified=status.st_mtime_ns,
        digest=digest_rows(rows),
        counts=tuple(np.bincount(rows.labels, minlength=classes).tolist()) if classes else (),
    )


def checksum(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
