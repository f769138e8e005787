"""NumPy npz with CSR arrays ``data, indices, indptr, shape`` and labels ``y`` (``weight`` optional).

The arrays are members of a zip file; each is read as a stream of its own, so that no array is ever held whole. What a
header says of an array is believed only as far as the archive's directory agrees.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import IO

import numpy as np

from pipeline.data.reading.base import BlockTask, ReadOptions
from pipeline.data.reading.block import LARGEST_FEATURES, Block, Origin, ReadRules, make_block, zero_based
from pipeline.data.reading.files import open_binary, size_of
from pipeline.data.reading.labels import RawLabels, label_text
from pipeline.data.reading.npz_member import NpzMember
from pipeline.data.reading.parquet import BYTES_A_PAIR, array_rules
from pipeline.errors import DataError

ROWS_AT_A_TIME = 1 << 14  # bounds what a step of rows without nonzeros takes
NONZEROS_AT_A_TIME = 1 << 21  # 24 MB with their indices
NEEDED = ("data", "indices", "indptr", "shape", "y")


class NpzSource:
    """One npz file; one without ``y`` can be scored."""

    format = "npz"
    columns: tuple[str, ...] | None = None

    def __init__(self, path: str, options: ReadOptions) -> None:
        self.path, self.max_entries = path, options.max_line // BYTES_A_PAIR
        self.rules = array_rules(options.rules)
        self.size = size_of(path)
        with open_binary(path) as raw, _archive(raw, path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
            for name in NEEDED:
                if name not in names and not (name == "y" and self.rules.unlabelled):
                    needed = "data, indices, indptr, shape and y, the labels"
                    raise DataError(f"no array '{name}'; an npz needs {needed}: add it", path=path)
            if "format" in names:
                kind = label_text(NpzMember(archive, "format", path).read(1).tolist()[0])
                if kind != "csr":
                    raise DataError(f"the matrix is {kind[:40]}; convert it to CSR", path=path)
            shape = NpzMember(archive, "shape", path)
            if shape.length != 2:
                raise DataError(f"'shape' has {shape.length} entries, not 2; write the matrix again", path=path)
            n_rows, n_features = shape.read(2).tolist()
            self.members = tuple(name for name in (*NEEDED, "weight") if name in names and name != "shape")
        self.n_rows: int = n_rows
        self.n_features: int | None = n_features
        if n_rows < 0 or not 1 <= n_features <= LARGEST_FEATURES:
            raise DataError(f"the shape {n_rows} x {n_features} cannot be; write the matrix again", path=path)

    def tasks(self) -> Iterator[BlockTask]:
        """Yield the next rows, at most ``ROWS_AT_A_TIME`` and about ``NONZEROS_AT_A_TIME`` nonzeros at a time."""
        with open_binary(self.path) as raw, _archive(raw, self.path) as archive:
            members = {name: NpzMember(archive, name, self.path) for name in self.members}
            self._check_lengths(members)
            row, end = 0, int(members["indptr"].read(1)[0])
            if end != 0:
                raise DataError(f"'indptr' starts with {end}, not 0; write the matrix again", path=self.path)
            pending = np.empty(0, np.int64)
            while row < self.n_rows:
                if pending.size == 0:
                    pending = self._row_ends(members, row, end)
                count = max(1, int(np.searchsorted(pending, end + NONZEROS_AT_A_TIME, side="right")))
                indptr = np.concatenate([[0], pending[:count] - end])
                pending, nnz = pending[count:], int(indptr[-1])
                yield self._task(members, row, indptr, nnz)
                end, row = end + nnz, row + count

    def _row_ends(self, members: dict[str, NpzMember], row: int, end: int) -> np.ndarray:
        """Return where the next rows end, checked: ascending, within what is stored, none longer than a row may be."""
        stored, origin = members["data"].length, Origin(self.path, row + 1)
        ends = members["indptr"].read(min(ROWS_AT_A_TIME, self.n_rows - row))
        beyond = np.flatnonzero((ends < 0) | (ends > stored))
        ends = ends.astype(np.int64)
        lengths = np.diff(ends, prepend=end)
        wrong = np.union1d(np.flatnonzero(lengths < 0), beyond)
        if wrong.size:
            problem = f"'indptr' decreases or goes beyond the {stored} stored values; write the matrix again"
            raise origin.error(int(wrong[0]), problem)
        longest = int(np.argmax(lengths))
        if lengths[longest] > self.max_entries:
            problem = f"the row has {lengths[longest]:,} entries, more than the {self.max_entries:,} there may be"
            raise origin.error(longest, f"{problem}; raise --max-line if that is right")
        return ends

    def _check_lengths(self, members: dict[str, NpzMember]) -> None:
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

    def _task(self, members: dict[str, NpzMember], row: int, indptr: np.ndarray, nnz: int) -> BlockTask:
        rows = indptr.size - 1
        csr = indptr, members["indices"].read(nnz), members["data"].read(nnz)
        labels = members["y"].read(rows) if "y" in members else None
        costs = members["weight"].read(rows).astype(np.float64) if "weight" in members else None
        share = self.size * rows // max(1, self.n_rows)
        limit = self.n_features if self.rules.features is None else self.rules.features
        rules = replace(self.rules, features=limit)
        return partial(_block, Origin(self.path, row + 1), labels, csr, rules, costs, share)


def _block(
    origin: Origin,
    labels: np.ndarray | None,
    csr: tuple[np.ndarray, ...],
    rules: ReadRules,
    costs: np.ndarray | None,
    share: int,
) -> Block:
    indptr, indices, values = csr
    arrays = indptr, zero_based(indices, indptr, rules, origin), values.astype(np.float64)
    raw = RawLabels.of(np.full(indptr.size - 1, "") if labels is None else labels)
    return make_block(origin, raw, arrays, rules, costs).with_source_bytes(share)


def _archive(raw: IO[bytes], path: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(raw)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, UnicodeDecodeError) as error:
        raise DataError(f"is not a readable npz file ({error}); write it again", path=path) from error
