"""NumPy npz with CSR arrays ``data, indices, indptr, shape`` and labels ``y`` (``weight`` optional).

The arrays are members of a zip file; each is read as a stream of its own, so that no array is ever held whole.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import IO

import numpy as np

from pipeline.data.block import LARGEST_FEATURES, Block, Origin, ReadRules, make_block, zero_based
from pipeline.data.labels import RawLabels, label_text
from pipeline.data.sources.base import ReadOptions, Task
from pipeline.data.sources.files import open_binary, size_of
from pipeline.data.sources.parquet import array_rules
from pipeline.errors import DataError

ROWS_AT_A_TIME = 1 << 14
NONZEROS_AT_A_TIME = 1 << 21
_KINDS = {
    "data": "biuf",
    "weight": "biuf",
    "indices": "iu",
    "indptr": "iu",
    "shape": "iu",
    "y": "biufUS",
    "format": "US",
}
_WHAT = {"biuf": "numbers", "iu": "whole numbers", "biufUS": "numbers or text", "US": "text"}
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


class NpzSource:
    """One npz file."""

    format = "npz"
    columns: tuple[str, ...] | None = None

    def __init__(self, path: str, options: ReadOptions) -> None:
        self.path = path
        self.rules = array_rules(options.rules)
        self.size = size_of(path)
        with open_binary(path) as raw, _archive(raw, path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
            for name in ("data", "indices", "indptr", "shape", "y"):
                if name not in names:
                    raise DataError(f"no array '{name}'; an npz needs data, indices, indptr, shape and y", path=path)
            if "format" in names:
                kind = label_text(_Member(archive, "format", path).read(1).tolist()[0])
                if kind != "csr":
                    raise DataError(f"the matrix is {kind}; convert it to CSR", path=path)
            shape = _Member(archive, "shape", path)
            if shape.length != 2:
                raise DataError(f"'shape' has {shape.length} entries, not 2; write the matrix again", path=path)
            n_rows, n_features = shape.read(2).tolist()
            self.weighted = "weight" in names
        self.n_rows: int = n_rows
        self.n_features: int | None = n_features
        if n_rows < 0 or not 0 <= n_features <= LARGEST_FEATURES:
            raise DataError(f"the shape {n_rows} x {n_features} cannot be; write the matrix again", path=path)

    def tasks(self) -> Iterator[Task]:
        """Yield the next rows, at most ``ROWS_AT_A_TIME`` and about ``NONZEROS_AT_A_TIME`` nonzeros at a time."""
        with open_binary(self.path) as raw, _archive(raw, self.path) as archive:
            members = {n: _Member(archive, n, self.path) for n in ("data", "indices", "indptr", "y")}
            if self.weighted:
                members["weight"] = _Member(archive, "weight", self.path)
            self._check_lengths(members)
            row, end, stored = 0, int(members["indptr"].read(1)[0]), members["data"].length
            if end != 0:
                raise DataError(f"'indptr' starts with {end}, not 0; write the matrix again", path=self.path)
            pending = np.empty(0, np.int64)
            while row < self.n_rows:
                if pending.size == 0:
                    pending = members["indptr"].read(min(ROWS_AT_A_TIME, self.n_rows - row)).astype(np.int64)
                    wrong = np.flatnonzero((np.diff(pending, prepend=end) < 0) | (pending > stored))
                    if wrong.size:
                        problem = (
                            f"'indptr' decreases or goes beyond the {stored} stored values; write the matrix again"
                        )
                        raise Origin(self.path, row + 1).error(int(wrong[0]), problem)
                count = max(1, int(np.searchsorted(pending, end + NONZEROS_AT_A_TIME, side="right")))
                indptr = np.concatenate([[0], pending[:count] - end])
                pending, nnz = pending[count:], int(indptr[-1])
                yield self._task(members, row, indptr, nnz)
                end, row = end + nnz, row + count

    def _check_lengths(self, members: dict[str, _Member]) -> None:
        lengths = {
            "y": self.n_rows,
            "indptr": self.n_rows + 1,
            "weight": self.n_rows,
            "indices": members["data"].length,
        }
        for name, expected in lengths.items():
            if name in members and members[name].length != expected:
                problem = f"'{name}' has {members[name].length} entries, not {expected}"
                raise DataError(f"{problem}; the arrays must agree: write the file again", path=self.path)

    def _task(self, members: dict[str, _Member], row: int, indptr: np.ndarray, nnz: int) -> Task:
        rows = indptr.size - 1
        csr = indptr, members["indices"].read(nnz), members["data"].read(nnz)
        labels = members["y"].read(rows)
        costs = members["weight"].read(rows).astype(np.float64) if self.weighted else None
        share = self.size * rows // max(1, self.n_rows)
        limit = self.n_features if self.rules.features is None else self.rules.features
        rules = replace(self.rules, features=limit)
        return partial(_block, Origin(self.path, row + 1), labels, csr, rules, costs, share)


def _block(
    origin: Origin,
    labels: np.ndarray,
    csr: tuple[np.ndarray, ...],
    rules: ReadRules,
    costs: np.ndarray | None,
    share: int,
) -> Block:
    indptr, indices, values = csr
    arrays = indptr, zero_based(indices, indptr, rules, origin), values.astype(np.float64)
    return make_block(origin, RawLabels.of(labels), arrays, rules, costs).with_source_bytes(share)


class _Member:
    """One array of the archive as a stream of entries."""

    def __init__(self, archive: zipfile.ZipFile, name: str, path: str) -> None:
        self.name, self.path = name, path
        with self._damage():
            self.stream: IO[bytes] = archive.open(name + ".npy")
            version = np.lib.format.read_magic(self.stream)
            read_header = (
                np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            )
            shape, _, self.dtype = read_header(self.stream)
        if self.dtype.kind not in _KINDS[name] or len(shape) > 1:
            problem = f"'{name}' is an array of {self.dtype} with shape {shape}"
            raise DataError(f"{problem}; it must be one-dimensional, of {_WHAT[_KINDS[name]]}", path=path)
        self.length = int(shape[0]) if shape else 1

    def read(self, count: int) -> np.ndarray:
        size = count * self.dtype.itemsize
        with self._damage():
            data = self.stream.read(size)
        if len(data) != size:
            raise DataError(f"'{self.name}' ends too early; write the file again", path=self.path)
        return np.frombuffer(data, dtype=self.dtype)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            raise DataError(f"'{self.name}' is damaged ({error}); write the file again", path=self.path) from error


def _archive(raw: IO[bytes], path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(raw)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise DataError(f"is not a readable npz file ({error}); write it again", path=path) from error
