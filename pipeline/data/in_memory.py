"""Arrays as a data set: the same rows, digests and fingerprint as if they had been ingested, and no file.

    x, codes of classes, weights -> blocks of some rows, checked and tidy -> shards that hold their rows

A shard here is its rows: passes in this process use them as they are. To other processes they are sent, pass by pass;
who has so much that this matters ingests it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.data.ingest.assemble import ShardCutter, join
from pipeline.data.reading.block import LARGEST_FEATURES, Block, Origin, ReadRules, make_block
from pipeline.data.reading.labels import LabelMap, RawLabels
from pipeline.data.shards.digest import digest_rows, digest_text, fingerprint, lanes_of
from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

ARRAYS = "arrays"  # the kind of such a data set
CELLS = 1 << 22  # that are made into a block at a time: 50 MB


@dataclass(frozen=True, eq=False)
class MemoryShard:
    """Rows in memory, from ``first_row`` of the data set on."""

    rows: Rows
    first_row: int
    digest: str

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return self.rows.nnz

    def load(self) -> Rows:
        """Return the rows."""
        return self.rows


def in_memory(
    x: Any,
    codes: np.ndarray,
    labels: LabelMap,
    costs: np.ndarray | None = None,
    *,
    bias: float = 0.0,
    columns: tuple[str, ...] | None = None,
    name: str = ARRAYS,
) -> Dataset:
    """Return the rows of a matrix, dense or SciPy's sparse, as a data set.

    ``codes`` are the rows' classes, from 0 on: of two the second is +1; the names in ``labels`` stand in this order.
    Nothing that is given is changed or held. A row that no SVM should be trained on is an error that names it, counted
    from 0 as arrays count.
    """
    own = x.shape[1]
    if not 1 <= own <= LARGEST_FEATURES:
        raise DataError(f"has {own:,} features; there may be from 1 to {LARGEST_FEATURES:,}", path=name)
    several = len(labels.classes)
    signs = codes.astype(np.int32) if several else (2 * codes - 1).astype(np.int8)
    cutter, features = ShardCutter(None, has_bias=bool(bias)), own + (1 if bias else 0)
    shards, first = list[MemoryShard](), 0
    for block in _blocks(x, codes, costs, Origin(name, 0, columns=columns)):
        here = signs[first : first + block.n_rows]
        shards += [memory_shard(join(pieces, bias, own), features) for pieces in cutter.add(block, here)]
        first += block.n_rows
    last = cutter.take()
    shards += [memory_shard(join(last, bias, own), features)] if last else []
    counts = np.bincount(codes, minlength=several or 2).tolist()
    return Dataset(
        path=name,
        kind=ARRAYS,
        n_features=features,
        labels=labels,
        bias=bias,
        shards=tuple(_placed(shards)),
        n_positive=0 if several else counts[1],
        fingerprint=fingerprint([(lanes_of(shard.digest), shard.n_rows) for shard in shards], features),
        bytes=sum(shard.rows.values.nbytes + shard.rows.indices.nbytes for shard in shards),
        columns=columns,
        class_counts=tuple(counts) if several else (),
    )


def memory_shard(rows: Rows, features: int, first_row: int = 0) -> MemoryShard:
    """Return rows as a shard of a data set with so many features."""
    made = replace(rows, n_features=features)
    return MemoryShard(made, first_row, digest_text(digest_rows(made)))


def _placed(shards: list[MemoryShard]) -> Iterator[MemoryShard]:
    first = 0
    for shard in shards:
        yield replace(shard, first_row=first)
        first += shard.n_rows


def _blocks(x: Any, codes: np.ndarray, costs: np.ndarray | None, origin: Origin) -> Iterator[Block]:
    """Yield the rows, some at a time, copied, checked and tidy."""
    rules = ReadRules(base=0, features=x.shape[1], add_duplicates=True)
    names = tuple(map(str, range(int(codes.max(initial=0)) + 1)))
    for first, stop, arrays in _copies(x.tocsr() if hasattr(x, "tocsr") else x):
        raw = RawLabels(codes[first:stop], names)
        some = None if costs is None else costs[first:stop]
        yield make_block(replace(origin, first=first), raw, arrays, rules, some)


def _copies(x: Any) -> Iterator[tuple[int, int, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Yield where some rows begin and end, and copies of them as CSR arrays; of a dense matrix zeros are there, too."""
    n_rows, own = x.shape
    sparse = hasattr(x, "tocsr")
    mean = x.nnz // max(1, n_rows) if sparse else own
    step = max(1, CELLS // max(1, mean))
    for first in range(0, n_rows, step):
        stop = min(n_rows, first + step)
        if sparse:
            indptr = x.indptr[first : stop + 1].astype(np.int64)
            here = slice(int(indptr[0]), int(indptr[-1]))
            yield first, stop, (indptr - indptr[0], x.indices[here].astype(np.int32), x.data[here].astype(np.float64))
        else:
            indptr = np.arange(0, (stop - first + 1) * own, own, dtype=np.int64)
            indices = np.tile(np.arange(own, dtype=np.int32), stop - first)
            yield first, stop, (indptr, indices, np.array(x[first:stop], np.float64).reshape(-1))
