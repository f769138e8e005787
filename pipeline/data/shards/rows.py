"""Rows in memory, the form every pass works on: CSR arrays with label, cost and norm per row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import DatasetError

if TYPE_CHECKING:
    import pyarrow as pa
    import scipy.sparse as sp


@dataclass(frozen=True)
class Rows:
    """Rows x_i with labels y_i in {-1, +1}, costs c_i > 0 and norms |z_i| = |x_i|, where z_i = y_i x_i.

    Rows of three classes or more have codes of classes (int32) as labels, which no pass over z_i can use. One class
    against the rest of them is a view that has signs, and costs, of its own; ``stored`` are then the rows as they are
    in their shard: what is in a row, for hashes and digests, is the same in every view.

    Rows of the same group (``groups`` are hashes, uint64) stay together where rows are split; None: there are none.
    ``ids`` are what the user calls them, which no pass looks at (``shards.ids``); None: there are none.

    ``indptr`` and ``indices`` are int32, indices sorted within a row; ``values`` are float32 or float64, never zero.
    The arrays of a shard are views of a memory-mapped file: read-only.
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    costs: np.ndarray
    norms: np.ndarray
    n_features: int
    stored: Rows | None = None
    groups: np.ndarray | None = None
    ids: pa.StructArray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.labels.size

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return self.indices.size

    def part(self, start: int, stop: int) -> Rows:
        """Return rows [start, stop); all but ``indptr`` are views."""
        first, last = (int(self.indptr[row]) for row in (start, stop))
        return Rows(
            indptr=self.indptr[start : stop + 1] - np.int32(first),
            indices=self.indices[first:last],
            values=self.values[first:last],
            labels=self.labels[start:stop],
            costs=self.costs[start:stop],
            norms=self.norms[start:stop],
            n_features=self.n_features,
            groups=None if self.groups is None else self.groups[start:stop],
            ids=None if self.ids is None else self.ids[start:stop],
            stored=None if self.stored is None else self.stored.part(start, stop),
        )

    def csr(self) -> sp.csr_array:
        """Return x as a SciPy matrix that shares these arrays."""
        import scipy.sparse as sp  # noqa: PLC0415 - slow to import, and no pass needs it

        return sp.csr_array((self.values, self.indices, self.indptr), shape=(self.n_rows, self.n_features), copy=False)


def joined_groups(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Return the groups of rows one after the other: all of them have some, or none has."""
    known = [groups for groups in parts if groups is not None]
    if len(known) not in (0, len(parts)):
        raise DatasetError("some of its shards have groups, and others none; ingest the data again")
    return np.concatenate(known) if known else None
