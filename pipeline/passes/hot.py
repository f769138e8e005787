"""Hot rows: copies, next to the run, of rows that are read again and again where the data are larger than memory.

A certificate that reads a fifth of the rows (``path.asleep``) finds one of them on nearly every page, and rows that are
gathered for a solver lie as far apart: the disk is read whole for them. So rows that will be read before all of them
are again (``path.soon`` says which) are copied while the shards are read anyway, into bands by how soon they are
expected: a band is one scratch file, of which the page cache keeps what it has room for, with the rows of one shard
after the other. Who reads some rows takes those that are in a band from there, and only the others from their shard.

A copy has the entries of the row in their order, and values that convert to the same float64: every product has the
same bits, so which rows are hot is nobody's business but this machine's. Bands go with the process, killed or not.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.at_random import at_random
from pipeline.data.shards.rows import Rows
from pipeline.engine.engine import Engine
from pipeline.maths import csr
from pipeline.passes.scratch import zeros

T = TypeVar("T")

VARIABLE = "SVMSIEVE_HOT"  # 0: no rows are copied; 1: they are even if the page cache has room for all data
SHARE_OF_FREE = 0.5  # of the disk, at most: models are written there, too
# Of a shard's rows: fewer are read page by page, at 0.1 ms for each of the five or so that a row lies on; reading all
# takes 0.5 microseconds a row (450 bytes at 1 GB/s).
FEW = 1e-3
MOST_BANDS = 100  # marks are bytes with a sign
Source = tuple[Rows, np.ndarray, np.ndarray]  # rows, the numbers of some there, and their places among those wanted


class HotRows:
    """Bands of rows. ``marks`` has a byte a row: the number of the band that it is in, 0 if it is in none."""

    def __init__(self, data: Dataset, folder: Path, lengths: np.ndarray, wide: bool) -> None:
        self.data, self.folder, self.lengths, self.wide = data, folder, lengths, wide
        self.marks = zeros(data.n_rows, np.int8, folder)
        self.bands, self._coming = dict[int, dict[int, Rows]](), dict[int, dict[int, Rows]]()
        self._backwards = False

    def forget(self) -> None:
        """Have no rows."""
        self.marks[:] = 0
        self.bands, self._coming = {}, {}

    @property
    def nnz(self) -> int:
        """How many nonzeros are in bands."""
        return sum(rows.nnz for parts in self.bands.values() for rows in parts.values())

    def has(self, part: slice) -> np.ndarray:
        """Tell which rows are in bands."""
        return np.isin(self.marks[part], list(self.bands))

    def expect(self) -> None:
        """Make room for the rows that are marked for bands that are not there.

        Their content comes with ``copy`` of all shards, and they are used after ``arrived``. Where the disk has no room
        they stay in their shards.
        """
        marks, self._coming = self.marks, {}
        sizes = dict[int, list[tuple[int, int, int]]]()
        for shard in self.data.shards:
            part = slice(shard.first_row, shard.first_row + shard.n_rows)
            rows = np.bincount(marks[part])
            entries = np.bincount(marks[part], weights=self.lengths[part])
            for band in range(1, rows.size):
                if rows[band] and band not in self.bands:
                    sizes.setdefault(band, []).append((shard.first_row, int(rows[band]), int(entries[band])))
        for band in sorted(sizes):
            total = sum(_bytes(rows, entries, self.wide) for _, rows, entries in sizes[band])
            if total > SHARE_OF_FREE * shutil.disk_usage(self.folder).free:
                return
            try:
                file = zeros(total, np.uint8, self.folder)
            except OSError:  # the disk is full, or the user's part of it
                return
            self._coming[band] = _cut(file, sizes[band], self.wide, self.data.n_features)

    @property
    def expected(self) -> bool:
        """Whether bands wait for their content."""
        return bool(self._coming)

    def copy(self, shard: Shard) -> None:
        """Copy what is expected of a shard."""
        marks, rows = self.marks[shard.first_row : shard.first_row + shard.n_rows], None
        for band, parts in self._coming.items():
            made = parts.get(shard.first_row)
            if made is None:
                continue
            rows = rows or shard.load()
            chosen = np.flatnonzero(marks == band)
            source, out = (rows.indptr, rows.indices, rows.values), (made.indptr, made.indices, made.values)
            csr.copy_rows(source, chosen, out)
            made.labels[:], made.costs[:], made.norms[:] = rows.labels[chosen], rows.costs[chosen], rows.norms[chosen]

    def arrived(self) -> None:
        """Use the bands that were copied."""
        for band, parts in self._coming.items():
            self.bands[band] = {first: _read_only(rows) for first, rows in parts.items()}
        self._coming = {}

    def copy_all(self, engine: Engine) -> None:
        """Read the shards for what is expected of them."""
        for _ in engine.here.stream(self.copy, self.data.shards):
            pass
        self.arrived()

    def turned(self, items: Sequence[T]) -> Sequence[T]:
        """Return what is to be read, backwards every other time: what was read last is still in the page cache."""
        self._backwards = not self._backwards
        return items[::-1] if self._backwards else items

    def sources(self, shard: Shard, some: np.ndarray) -> Iterator[Source]:
        """Yield where some rows of a shard are, by their numbers in it: in bands, and the rest in the shard itself."""
        marks = self.marks[shard.first_row : shard.first_row + shard.n_rows]
        mine, left = marks[some], np.ones(some.size, np.bool_)
        for band, parts in self.bands.items():
            places = np.flatnonzero(mine == band)
            if places.size:
                left[places] = False
                yield parts[shard.first_row], np.searchsorted(np.flatnonzero(marks == band), some[places]), places
        places = np.flatnonzero(left)
        if places.size:
            rows = shard.load()
            with at_random(rows) if places.size < FEW * shard.n_rows else nullcontext():
                yield rows, some[places], places


def _read_only(rows: Rows) -> Rows:
    """Return rows as those of shards are, for which kernels are compiled."""
    for array in (rows.indptr, rows.indices, rows.values, rows.labels, rows.costs, rows.norms):
        array.flags.writeable = False
    return rows


def _bytes(rows: int, entries: int, wide: bool) -> int:
    """Return what rows of one shard take in a band: the sum of what ``_cut`` cuts off, so that the next are aligned."""
    return -(-(21 * rows + 4 + (12 if wide else 8) * entries) // 8) * 8


def _cut(file: np.ndarray, sizes: list[tuple[int, int, int]], wide: bool, n_features: int) -> dict[int, Rows]:
    """Cut a file into rows of shards, by the number of each shard's first row; the widest numbers come first."""
    found, end = dict[int, Rows](), 0

    def cut(count: int, dtype: type) -> np.ndarray:
        nonlocal end
        begin, end = end, end + count * np.dtype(dtype).itemsize
        return file[begin:end].view(dtype)

    for first_row, rows, entries in sizes:
        begin = end
        costs, norms = cut(rows, np.float64), cut(rows, np.float64)
        values = cut(entries, np.float64 if wide else np.float32)
        indptr, indices, labels = cut(rows + 1, np.int32), cut(entries, np.int32), cut(rows, np.int8)
        found[first_row] = Rows(indptr, indices, values, labels, costs, norms, n_features)
        end = begin + _bytes(rows, entries, wide)
    return found
