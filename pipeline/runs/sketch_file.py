"""RUN/trained_rows.npy: the sketch of the rows that a run was trained on (``maths.row_sketch``), as ascending uint64.

run.json says how many hashes there are, whether they are all, and the SHA-256 of the file: so that the run's seal
covers it, and nothing is read that was not written. Version 1 hashes a row as ``data.shards.digest.feature_hashes``
does, features numbered as in the run.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from pipeline.dataclass import dataclass
from pipeline.errors import RunError
from pipeline.files import atomic
from pipeline.maths.row_sketch import MOST, RowSketch

SKETCH_FILE, SKETCH_VERSION = "trained_rows.npy", 1


@dataclass(frozen=True)
class SketchRecord:
    """What run.json says of the file."""

    version: int
    """The version of file and hashes."""
    count: int
    """How many hashes there are."""
    complete: bool
    """Whether they are all that the rows have."""
    sha256: str
    """The SHA-256 of the file."""


def write_sketch(folder: Path, sketch: RowSketch) -> SketchRecord:
    """Write the sketch of a run, all at once, unless it is there; return what run.json is to say of it."""
    content = _start(sketch.hashes.size) + sketch.hashes.astype("<u8").tobytes()
    record = SketchRecord(SKETCH_VERSION, sketch.hashes.size, sketch.complete, hashlib.sha256(content).hexdigest())
    if sketch_digest(folder) != record.sha256:
        with atomic(folder / SKETCH_FILE) as stream:
            stream.write(content)
    return record


def read_sketch(folder: Path, record: SketchRecord) -> RowSketch:
    """Read the sketch of a run, or say in one line why it cannot be believed."""
    path = folder / SKETCH_FILE
    if record.version != SKETCH_VERSION:
        raise RunError(f"{path}: version {record.version}, which this svmsieve does not know; use a newer one")
    start = _start(record.count)
    try:
        with path.open("rb") as stream:
            content = stream.read(len(start) + 8 * MOST + 1)
    except OSError as error:
        raise RunError(f"{path}: missing or damaged ({error.strerror}); train again") from error
    damaged = RunError(f"{path}: missing or damaged (it is not what was written); train again")
    if len(content) != len(start) + 8 * record.count or not content.startswith(start):
        raise damaged
    hashes = np.frombuffer(content, "<u8", offset=len(start)).astype(np.uint64)
    ascends = bool(np.all(hashes[1:] > hashes[:-1])) and (record.complete or hashes.size > 0)
    if not ascends or hashlib.sha256(content).hexdigest() != record.sha256:
        raise damaged
    return RowSketch(hashes, record.complete)


def sketch_digest(folder: Path) -> str:
    """Return the SHA-256 of the file, "" if it cannot be read."""
    try:
        with (folder / SKETCH_FILE).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""


def _start(count: int) -> bytes:
    """Return what a file of so many hashes begins with."""
    made = io.BytesIO()
    npy.write_array_header_1_0(made, {"descr": "<u8", "fortran_order": False, "shape": (count,)})
    return made.getvalue()
