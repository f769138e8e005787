"""A model on disk: an npz file without pickle, written a chunk at a time and bit for bit the same for the same model.

Keys: ``c``, ``n_features``, ``n_rows``, ``w_index``, ``w_value``, ``alpha_index``, ``alpha_value`` (nonzero entries
only; alpha in row order), ``zero_bits`` and ``upper_bits`` (the verdicts, a bit a row), and ``w_alpha_index``,
``w_alpha_value`` where w is not w_alpha.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from pipeline.errors import RunError
from pipeline.maths.verdicts import KEEP, UPPER, ZERO

KEYS = {f"{name}.npy" for name in ("c", "n_features", "n_rows", "w_index", "w_value", "alpha_index", "alpha_value")}
KEYS |= {"zero_bits.npy", "upper_bits.npy"}
DAMAGE = (OSError, ValueError, LookupError, RuntimeError, EOFError, zipfile.BadZipFile, struct.error, zlib.error)
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
    """Write under a temporary name, force to disk if ``sync``, then rename; return the file's hash."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w+b") as stream:
        with _archive(stream) as archive:
            _write(archive, "c", np.float64, (), [np.float64(c).tobytes()])
            _write(archive, "n_features", np.int64, (), [np.int64(w.size).tobytes()])
            _write(archive, "n_rows", np.int64, (), [np.int64(alpha.size).tobytes()])
            _write_sparse(archive, "w", w)
            _write_sparse(archive, "alpha", alpha)
            if w_alpha is not None:
                _write_sparse(archive, "w_alpha", w_alpha)
            for name, verdict in (("zero_bits", ZERO), ("upper_bits", UPPER)):
                bits = (np.packbits(part == verdict).tobytes() for _, part in _chunks(verdicts))
                _write(archive, name, np.uint8, (-(-verdicts.size // 8),), bits)
        if sync:
            stream.flush()
            os.fsync(stream.fileno())
        stream.seek(0)  # the archive's writer goes back and forth: the bytes cannot be hashed as they are written
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    temporary.replace(path)
    return digest


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


def _write_sparse(archive: zipfile.ZipFile, name: str, x: np.ndarray) -> None:
    count = sum(int(np.count_nonzero(part)) for _, part in _chunks(x))
    index = ((np.flatnonzero(part) + first).astype(np.int64).tobytes() for first, part in _chunks(x))
    value = (part[part != 0].astype(np.float64).tobytes() for _, part in _chunks(x))
    _write(archive, f"{name}_index", np.int64, (count,), index)
    _write(archive, f"{name}_value", np.float64, (count,), value)


def _write(archive: zipfile.ZipFile, name: str, dtype: type, shape: tuple[int, ...], pieces: Iterable[bytes]) -> None:
    header = {"descr": npy.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
        npy.write_array_header_1_0(entry, header)
        for piece in pieces:
            entry.write(piece)


@dataclass(frozen=True)
class StoredModel:
    """A model file; arrays are read when they are asked for."""

    path: Path

    def __getitem__(self, key: str) -> np.ndarray:
        try:
            with self.path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                return stored[key]
        except DAMAGE as error:
            raise _damaged(self.path, error) from error

    def is_whole(self) -> bool:
        """Check that everything is there, and every byte against the checksums in the file."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                return set(archive.namelist()) >= KEYS and archive.testzip() is None
        except DAMAGE:
            return False

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
        return self._dense("w", "n_features")

    def alpha(self, out: np.ndarray | None = None) -> np.ndarray:
        """The dual variables, dense, in row order; into ``out`` (at least as long, zero beyond) if that is given."""
        return self._dense("alpha", "n_rows", out)

    def w_alpha(self) -> np.ndarray | None:
        """The vector sum alpha_i z_i if it was stored apart from w."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                apart = "w_alpha_index.npy" in archive.namelist()
        except DAMAGE as error:
            raise _damaged(self.path, error) from error
        return self._dense("w_alpha", "n_features") if apart else None

    def verdicts(self) -> np.ndarray:
        """KEEP, ZERO or UPPER by row, as screened before the solve."""
        n = int(self["n_rows"])
        found = np.full(n, KEEP, np.int8)
        for key, verdict in (("zero_bits", ZERO), ("upper_bits", UPPER)):
            found[np.unpackbits(self[key], count=n).astype(bool)] = verdict
        return found

    def _dense(self, name: str, size: str, out: np.ndarray | None = None) -> np.ndarray:
        full = np.empty(int(self[size])) if out is None else out
        full[:] = 0.0
        try:
            with zipfile.ZipFile(self.path) as archive:
                pieces = (_pieces(archive, f"{name}_{kind}") for kind in ("index", "value"))
                for index, value in zip(*pieces, strict=True):
                    full[index] = value
        except DAMAGE as error:
            raise _damaged(self.path, error) from error
        return full


def _pieces(archive: zipfile.ZipFile, name: str) -> Iterator[np.ndarray]:
    """Yield an array of 8-byte numbers a chunk at a time."""
    with archive.open(f"{name}.npy") as entry:
        if npy.read_magic(entry) != (1, 0):
            raise ValueError(f"{name} has an unknown version")
        _, _, dtype = npy.read_array_header_1_0(entry)
        while piece := entry.read(8 * CHUNK):
            yield np.frombuffer(piece, dtype)


def _damaged(path: Path, error: Exception) -> RunError:
    return RunError(f"{path}: the model is missing or damaged ({error}); train again")
