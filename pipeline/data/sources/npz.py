"""NumPy npz with CSR arrays ``data, indices, indptr, shape`` and labels ``y`` (``weight`` optional).

The arrays are members of a zip file; each is read as a stream of its own, so that no array is ever held whole.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from typing import IO

import numpy as np

from pipeline.data.block import LARGEST_FEATURES, Block, Origin, ReadRules, make_block
from pipeline.data.labels import RawLabels
from pipeline.data.sources.base import ReadOptions, Task
from pipeline.data.sources.files import open_binary, size_of
from pipeline.data.sources.parquet import array_rules
from pipeline.errors import DataError

ROWS_AT_A_TIME = 1 << 14
NONZEROS_AT_A_TIME = 1 << 21


class NpzSource:
    """One npz file."""

    columns: tuple[str, ...] | None = None

    def __init__(self, path: str, options: ReadOptions) -> None:
        self.path = path
        self.rules = array_rules(options.rules)
        self.size = size_of(path)
        with open_binary(path) as raw, _archive(raw, path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            for name in ("data", "indices", "indptr", "shape", "y"):
                if name not in names:
                    raise DataError(f"no array '{name}'; an npz needs data, indices, indptr, shape and y", path=path)
            if "format" in names:
                kind = _Member(archive, "format", path).read(1).tolist()[0]
                if kind not in (b"csr", "csr"):
                    raise DataError(f"the matrix is {kind!r}; convert it to CSR", path=path)
            n_rows, n_features = _Member(archive, "shape", path).read(2).tolist()
            self.weighted = "weight" in names
        self.n_rows: int = int(n_rows)
        self.n_features: int | None = int(n_features)
        if not 0 <= self.n_features <= LARGEST_FEATURES:
            raise DataError(f"{n_features} features are more than there can be ({LARGEST_FEATURES})", path=path)

    def tasks(self) -> Iterator[Task]:
        """Yield the next rows, at most ``ROWS_AT_A_TIME`` and about ``NONZEROS_AT_A_TIME`` nonzeros at a time."""
        with open_binary(self.path) as raw, _archive(raw, self.path) as archive:
            members = {n: _Member(archive, n, self.path) for n in ("data", "indices", "indptr", "y")}
            if self.weighted:
                members["weight"] = _Member(archive, "weight", self.path)
            for name, expected in (("y", self.n_rows), ("indptr", self.n_rows + 1), ("weight", self.n_rows)):
                if name in members and members[name].length != expected:
                    problem = f"'{name}' has {members[name].length} entries, not {expected}"
                    raise DataError(f"{problem}; shape, indptr and y must agree", path=self.path)
            end = int(members["indptr"].read(1)[0])
            row = 0
            pending = np.empty(0, np.int64)
            while row < self.n_rows:
                if pending.size == 0:
                    pending = members["indptr"].read(min(ROWS_AT_A_TIME, self.n_rows - row)).astype(np.int64)
                    if np.any(np.diff(pending, prepend=end) < 0):
                        raise DataError("'indptr' decreases; write the matrix again", path=self.path)
                count = max(1, int(np.searchsorted(pending, end + NONZEROS_AT_A_TIME, side="right")))
                indptr = np.concatenate([[0], pending[:count] - end])
                pending, nnz = pending[count:], int(indptr[-1])
                yield self._task(members, row, indptr, nnz)
                end, row = end + nnz, row + count

    def _task(self, members: dict[str, _Member], row: int, indptr: np.ndarray, nnz: int) -> Task:
        rows = indptr.size - 1
        indices = members["indices"].read(nnz).astype(np.int64)
        if np.any((indices < -(2**31)) | (indices > LARGEST_FEATURES)):
            raise DataError("an index is outside what 32 bits can number; renumber the features", path=self.path)
        values = np.array(members["data"].read(nnz), dtype=np.float64)
        labels = members["y"].read(rows)
        costs = members["weight"].read(rows).astype(np.float64) if self.weighted else None
        share = self.size * rows // max(1, self.n_rows)
        limit = self.n_features if self.rules.features is None else self.rules.features
        rules = ReadRules(self.rules.base, limit, self.rules.add_duplicates)
        return partial(_block, Origin(self.path, row + 1), labels, (indptr, indices, values), rules, costs, share)


def _block(
    origin: Origin,
    labels: np.ndarray,
    csr: tuple[np.ndarray, ...],
    rules: ReadRules,
    costs: np.ndarray | None,
    share: int,
) -> Block:
    indptr, indices, values = csr
    shifted = (indices - rules.assumed_base).astype(np.int32)
    return make_block(origin, RawLabels.of(labels), (indptr, shifted, values), rules, costs).with_source_bytes(share)


class _Member:
    """One array of the archive as a stream of entries."""

    def __init__(self, archive: zipfile.ZipFile, name: str, path: str) -> None:
        self.name, self.path = name, path
        self.stream: IO[bytes] = archive.open(name + ".npy")
        try:
            version = np.lib.format.read_magic(self.stream)
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            shape, _, self.dtype = read_header(self.stream)
        except ValueError as error:
            raise DataError(f"'{name}' is not a NumPy array ({error})", path=path) from error
        if self.dtype.hasobject or len(shape) > 1:
            raise DataError(f"'{name}' must be a plain one-dimensional array of numbers or text", path=path)
        self.length = int(shape[0]) if shape else 1

    def read(self, count: int) -> np.ndarray:
        size = count * self.dtype.itemsize
        try:
            data = self.stream.read(size)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise DataError(f"'{self.name}' is damaged ({error}); write the file again", path=self.path) from error
        if len(data) != size:
            raise DataError(f"'{self.name}' ends too early; the arrays do not belong together", path=self.path)
        return np.frombuffer(data, dtype=self.dtype)


def _archive(raw: IO[bytes], path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(raw)
    except zipfile.BadZipFile as error:
        raise DataError(f"is not a readable npz file ({error}); write it again", path=path) from error
