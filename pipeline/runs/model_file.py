"""A model on disk: an npz file without pickle, written a chunk at a time and bit for bit the same for the same model.

Keys: ``c``, ``n_features``, ``n_rows``, ``w_index``, ``w_value``, ``alpha_index``, ``alpha_value`` (nonzero entries
only; alpha in row order), ``zero_bits`` and ``upper_bits`` (the verdicts, a bit a row), and ``w_alpha_index``,
``w_alpha_value`` where w is not w_alpha.

A reader believes nothing: an array's type, its length and its place in the file are what was to be written, indices
ascend within their range, values are finite. Nothing is allocated that the file's own size does not vouch for.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
from numpy.lib import format as npy

from pipeline.dataclass import dataclass
from pipeline.errors import RunError
from pipeline.files import atomic, one_line
from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.runs.stored_zip import stored_zip

KINDS: dict[str, type] = {
    "c": np.float64,
    **dict.fromkeys(("n_features", "n_rows"), np.int64),
    **dict.fromkeys(("w_index", "alpha_index", "w_alpha_index"), np.int64),
    **dict.fromkeys(("w_value", "alpha_value", "w_alpha_value"), np.float64),
    **dict.fromkeys(("zero_bits", "upper_bits"), np.uint8),
}
OPTIONAL, PARTS = ("w_alpha",), ("index", "value")
LENGTHS = {"w": "n_features", "alpha": "n_rows", "w_alpha": "n_features"}
SCALARS = ("c", "n_features", "n_rows")
GROWTH = 21  # digits: npy's GROWTH_AXIS_MAX_DIGITS
MAGIC, LONGEST_HEADER = b"\x93NUMPY\x01\x00", 1000  # of an npy file of version 1.0; those written here have 118 bytes
DAMAGE = (OSError, ValueError, LookupError, RuntimeError, EOFError, zipfile.BadZipFile, struct.error, zlib.error)
SMALL = 16 << 20  # bytes that a model may have to be made in memory
CHUNK = 1 << 16  # a multiple of 8: a byte of verdict bits never straddles two chunks


def write_model(
    path: Path,
    c: float,
    w: np.ndarray,
    alpha: np.ndarray,
    verdicts: np.ndarray,
    w_alpha: np.ndarray | None = None,
    sync: bool = True,
) -> str:
    """Write a model, all at once, and force it to disk if ``sync``; return the file's hash.

    A small one is made in memory first, by a writer that is quicker and writes the same bytes.
    """
    arrays = _arrays(c, w, alpha, verdicts, w_alpha)
    if most_bytes(w, alpha) <= SMALL:
        made = _made(arrays)
        with atomic(path, sync) as stream:
            stream.write(made)
        return hashlib.sha256(made).hexdigest()
    with atomic(path, sync) as stream:
        with _archive(stream) as archive:
            for name, count, pieces in arrays:
                _write(archive, name, count, pieces)
        stream.seek(0)
        return hashlib.file_digest(stream, "sha256").hexdigest()


def most_bytes(w: np.ndarray, alpha: np.ndarray) -> int:
    """Return about how large a model may be, w_alpha included: 16 bytes an entry that is not zero."""
    return 16 * (2 * w.size + alpha.size)


def model_digest(c: float, w: np.ndarray, alpha: np.ndarray, verdicts: np.ndarray, w_alpha: np.ndarray | None) -> str:
    """Return the hash of the file that ``write_model`` would write."""
    return hashlib.sha256(_made(_arrays(c, w, alpha, verdicts, w_alpha))).hexdigest()


def _made(arrays: Iterable[tuple[str, int, Iterable[bytes]]]) -> bytes:
    return stored_zip([(f"{name}.npy", b"".join([_start(name, n), *parts])) for name, n, parts in arrays])


def _arrays(
    c: float, w: np.ndarray, alpha: np.ndarray, verdicts: np.ndarray, w_alpha: np.ndarray | None
) -> Iterator[tuple[str, int, Iterable[bytes]]]:
    """Yield the arrays of a model in order: name, how many numbers there are, and these in pieces."""
    yield "c", 1, [np.float64(c).tobytes()]
    yield "n_features", 1, [np.int64(w.size).tobytes()]
    yield "n_rows", 1, [np.int64(alpha.size).tobytes()]
    for name, vector in (("w", w), ("alpha", alpha), *(() if w_alpha is None else (("w_alpha", w_alpha),))):
        yield from _sparse(name, vector)
    for name, verdict in (("zero_bits", ZERO), ("upper_bits", UPPER)):
        yield name, -(-verdicts.size // 8), (np.packbits(part == verdict).tobytes() for _, part in _chunks(verdicts))


@contextmanager
def _archive(stream: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Yield a zip file whose end is written only if all went well.

    Interrupted in the middle of an entry, ZipFile's own ``with`` would raise a ValueError instead, and so would its
    deletion later.
    """
    archive = None
    try:
        archive = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED)
        yield archive
        archive.close()
    except BaseException:
        if archive is not None:
            archive.fp = None
        raise


def _chunks(x: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for first in range(0, x.size, CHUNK):
        yield first, x[first : first + CHUNK]


def _sparse(name: str, x: np.ndarray) -> Iterator[tuple[str, int, Iterable[bytes]]]:
    count = sum(int(np.count_nonzero(part)) for _, part in _chunks(x))
    yield f"{name}_index", count, ((_places(part) + first).tobytes() for first, part in _chunks(x))
    yield f"{name}_value", count, (part[_places(part)].astype(np.float64).tobytes() for _, part in _chunks(x))


def _places(x: np.ndarray) -> np.ndarray:
    return np.flatnonzero(x != 0)  # NumPy looks for True four times as fast as for numbers


def _write(archive: zipfile.ZipFile, name: str, count: int, pieces: Iterable[bytes]) -> None:
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
        entry.write(_start(name, count))
        for piece in pieces:
            entry.write(piece)


@lru_cache(1000)  # lengths recur along a path, and headers are a fifth of making a small model (51 microseconds)
def _start(name: str, count: int) -> bytes:
    """Return what the npy file of an array of so many numbers begins with: to the byte what NumPy writes."""
    text = _described(name, count)
    if name not in SCALARS:
        text += " " * (GROWTH - len(str(count)))  # NumPy leaves room for the length to grow
    length = len(MAGIC) + 2 + len(text) + 1
    text += " " * (-length % npy.ARRAY_ALIGN) + "\n"
    return MAGIC + len(text).to_bytes(2, "little") + text.encode()


def _described(name: str, count: int) -> str:
    shape = "()" if name in SCALARS else f"({count},)"
    return f"{{'descr': {_kind(name).str!r}, 'fortran_order': False, 'shape': {shape}, }}"


@dataclass(frozen=True)
class StoredModel:
    """A model file; arrays are read when they are asked for.

    It must have the ``n_rows`` and ``n_features`` that run.json says, and the ``stated_c`` of steps.jsonl, if given.
    """

    path: Path
    n_rows: int | None = None
    n_features: int | None = None
    stated_c: float | None = None

    def __getitem__(self, key: str) -> np.ndarray:
        with self._opened() as archive:
            return _array(archive, key)

    def is_there(self) -> bool:
        """Whether there is a file at all."""
        with one_line(lambda reason: RunError(f"{self.path}: cannot be read ({reason}); check its permissions")):
            return self.path.is_file()

    def is_whole(self) -> bool:
        """Check that everything is there and fits, and every byte against the checksums in the file."""
        try:
            with self._opened() as archive:
                sizes = self._sizes(archive)
                for name, size in LENGTHS.items():
                    for _ in _entries(archive, name, sizes[size]):
                        pass
                for name in ("c", "zero_bits", "upper_bits"):
                    _array(archive, name)
        except RunError:
            return False
        return True

    def digest(self) -> str:
        """Return a hash of the file: the same for the same model, whatever run it is in."""
        try:
            with self.path.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise _damaged(self.path, error) from error

    @cached_property
    def c(self) -> float:
        """The C it was trained for."""
        return float(self["c"])

    def w(self) -> np.ndarray:
        """The weights, dense."""
        return self._dense("w")

    def alpha(self, out: np.ndarray | None = None) -> np.ndarray:
        """The dual variables, dense, in row order; into ``out`` (at least as long, zero beyond) if that is given."""
        return self._dense("alpha", out)

    def w_alpha(self) -> np.ndarray | None:
        """The vector sum alpha_i z_i if it was stored apart from w."""
        with self._opened() as archive:
            there = _holds(archive, "w_alpha")
        return self._dense("w_alpha") if there else None

    def verdicts(self) -> np.ndarray:
        """KEEP, ZERO or UPPER by row, as screened before the solve."""
        with self._opened() as archive:
            n = self._sizes(archive)["n_rows"]
            found = np.full(n, KEEP, np.int8)
            for key, verdict in (("zero_bits", ZERO), ("upper_bits", UPPER)):
                found[np.unpackbits(_array(archive, key), count=n).astype(bool)] = verdict
        return found

    def _sizes(self, archive: zipfile.ZipFile) -> dict[str, int]:
        """Return the numbers of rows and features; there are bits for as many rows, and no others were expected."""
        sizes = {name: int(_array(archive, name)) for name in ("n_rows", "n_features")}
        if self.stated_c is not None and (c := float(_array(archive, "c"))) != self.stated_c:
            raise ValueError(f"it is for C = {c:g}, not for {self.stated_c:g}")
        for name in ("zero_bits", "upper_bits"):
            if _length(archive, name) != -(-sizes["n_rows"] // 8):
                raise ValueError(f"{name} are not those of {sizes['n_rows']} rows")
        for name, expected in (("n_rows", self.n_rows), ("n_features", self.n_features)):
            if sizes[name] != (sizes[name] if expected is None else expected):
                raise ValueError(f"{name} is {sizes[name]}, in run.json it is {expected}")
        return sizes

    def _dense(self, name: str, out: np.ndarray | None = None) -> np.ndarray:
        with self._opened() as archive:
            count = self._sizes(archive)[LENGTHS[name]]
            full = np.zeros(count) if out is None else out
            full[:] = 0.0
            for index, value in _entries(archive, name, count):
                full[index] = value
        return full

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        """Yield the file as an archive; what is wrong with it is an error that names it."""
        try:
            if not self.path.is_file():
                raise FileNotFoundError("no such file")
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except (*DAMAGE, MemoryError) as error:
            if isinstance(error, RunError):
                raise
            raise _damaged(self.path, error) from error


def _kind(name: str) -> np.dtype:
    return np.dtype(KINDS[name])


def _holds(archive: zipfile.ZipFile, name: str) -> bool:
    """Tell whether a vector is there."""
    return f"{name}_index.npy" in archive.namelist()


def _entries(archive: zipfile.ZipFile, name: str, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the nonzero entries of a vector, a chunk at a time; of a vector that is not there, none."""
    if name in OPTIONAL and not _holds(archive, name):
        return
    last = -1
    for index, value in zip(*(_pieces(archive, f"{name}_{kind}") for kind in PARTS), strict=True):
        if index.size != value.size:
            raise ValueError(f"{name} has not as many indices as values")
        if index[0] <= last or index[-1] >= count or (index[1:] <= index[:-1]).any():
            raise ValueError(f"the indices of {name} do not ascend from 0 to at most {count - 1}")
        if not np.isfinite(value).all():
            raise ValueError(f"{name} has values that are not finite")
        yield index, value
        last = int(index[-1])


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Return a whole array, or a number."""
    found = np.concatenate([np.empty(0, _kind(name)), *_pieces(archive, name)])
    return found.reshape(()) if name in SCALARS else found


def _length(archive: zipfile.ZipFile, name: str) -> int:
    """Return how many numbers an array has."""
    with _entry(archive, name) as (_, count):
        return count


@contextmanager
def _entry(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[IO[bytes], int]]:
    """Yield an array's stream after its header, and its length, which the bytes in the file vouch for."""
    info = archive.getinfo(f"{name}.npy")
    stream = archive.fp
    assert stream is not None
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > os.fstat(stream.fileno()).st_size:
        raise ValueError(f"{name} is not stored as it should be")
    with archive.open(info) as entry:
        start = entry.read(len(MAGIC) + 2)
        length = int.from_bytes(start[len(MAGIC) :], "little")
        if start[: len(MAGIC)] != MAGIC or length > LONGEST_HEADER:
            raise ValueError(f"{name} is no array")
        count, rest = divmod(info.file_size - len(start) - length, _kind(name).itemsize)
        expected = _described(name, count).encode()
        if rest or (name in SCALARS and count != 1) or entry.read(length).rstrip() != expected:
            raise ValueError(f"{name} is not {'a number' if name in SCALARS else 'a list'} of type {_kind(name)}")
        yield entry, count


def _pieces(archive: zipfile.ZipFile, name: str) -> Iterator[np.ndarray]:
    """Yield an array a chunk at a time; the last byte is read, so that its checksum is compared."""
    kind = _kind(name)
    with _entry(archive, name) as (entry, _):
        while piece := entry.read(kind.itemsize * CHUNK):
            yield np.frombuffer(piece, kind)


def _damaged(path: Path, error: Exception) -> RunError:
    return RunError(f"{path}: the model is missing or damaged ({error}); train again")
