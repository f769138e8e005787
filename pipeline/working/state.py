"""What is known of every row, one array entry each: in memory, or in scratch files when the budget is small.

Facts (norm, length, cost, label) are collected once, in one pass, and never change. Verdicts and the working set
(``chosen``) are those of the step under way. What proves something (alpha, products) belongs to the pair or the point
that it is part of: ``empty`` makes its arrays, and they go with it. A scratch file is memory-mapped and has no name any
more: its pages are the system's to write out, and it is gone with its array, or with the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.digest import feature_hashes
from pipeline.engine.engine import Engine
from pipeline.errors import DataError
from pipeline.maths.row_sketch import SketchMaker
from pipeline.maths.score import WEIGHTED
from pipeline.spec import PathSpec
from pipeline.working.split import split_keys, split_of

CHUNK = 1 << 17  # rows at a time: 1 MB an array


class RowState:
    """Arrays with one entry a row. Rows left out of training (hold-out, other fold) have cost 0.

    ``left_out_costs`` are those that they would have in training, in their order, where scores weigh them.
    """

    def __init__(self, n_rows: int, scratch: Path | None) -> None:
        self.n_rows, self.scratch = n_rows, scratch
        self.norms, self.costs = self.empty(np.float64), self.empty(np.float64)
        self.lengths, self.labels = self.empty(np.int32), self.empty(np.int8)
        self.verdicts, self.chosen = self.empty(np.int8), self.empty(np.bool_)
        self.wide = False
        self.trained = n_rows
        self.class_weights = (1.0, 1.0)
        self.left_out_costs: np.ndarray | None = None

    def empty(self, dtype: type = np.float64) -> np.ndarray:
        """Return one more array, of zeros. The space of a file is taken now: later, a full disk is a bus error."""
        if self.scratch is None or self.n_rows == 0:
            return np.zeros(self.n_rows, dtype)
        with tempfile.TemporaryFile(prefix="rows-", dir=self.scratch) as stream:
            os.posix_fallocate(stream.fileno(), 0, self.n_rows * np.dtype(dtype).itemsize)
            return np.memmap(stream, dtype, "r+", shape=(self.n_rows,)).view(np.ndarray)

    def chunks(self) -> Iterator[slice]:
        """Cut the rows into parts that fit into the cache's neighbourhood."""
        for first in range(0, self.n_rows, CHUNK):
            yield slice(first, min(self.n_rows, first + CHUNK))

    def held_out(self) -> np.ndarray:
        """Return the numbers of the rows left out of training."""
        return np.flatnonzero(self.costs == 0.0)


def collect(
    engine: Engine, data: Dataset, spec: PathSpec, scratch: Path | None, trained: SketchMaker | None = None
) -> RowState:
    """Collect the facts of all rows in one pass, and settle their costs: class weights, and 0 for rows left out.

    ``trained`` is given the rows that are not left out.
    """
    data.expect_two_classes("a path")
    arrays = RowState(data.n_rows, scratch)
    own = None if trained is None else data.n_features - (1 if data.bias else 0)
    keys = (arrays.empty(np.uint64), arrays.empty(np.int32)) if spec.splits else None
    known = arrays.empty(np.uint64) if spec.splits and trained is not None else None
    row = 0
    for norms, lengths, costs, labels, (hashes, classes), features, wide in engine.stream(
        _facts, data.shards, spec, own
    ):
        part = slice(row, row + norms.size)
        arrays.norms[part], arrays.lengths[part], arrays.labels[part] = norms, lengths, labels
        arrays.costs[part] = costs
        if keys is not None:
            keys[0][part], keys[1][part] = hashes, classes
        arrays.wide = arrays.wide or wide
        if known is not None:
            known[part] = features
        elif trained is not None:
            trained.add(features)
        row = part.stop
    assert row == data.n_rows
    if keys is not None:
        _leave_out(arrays, spec, *keys)
    if known is not None and trained is not None:
        for part in arrays.chunks():
            trained.add(known[part][arrays.costs[part] > 0.0])
    _weigh_classes(arrays, spec, data.path)
    return arrays


def _leave_out(arrays: RowState, spec: PathSpec, hashes: np.ndarray, classes: np.ndarray) -> None:
    split = split_of(spec, hashes, classes, arrays.empty, list(arrays.chunks()))
    costs = list[np.ndarray]()
    for part in arrays.chunks():
        mine = split.left_out(hashes[part], classes[part])
        costs += [arrays.costs[part][mine]] if spec.select == WEIGHTED else []
        arrays.costs[part] *= ~mine
    arrays.left_out_costs = np.concatenate(costs) if costs else None


_Keys = tuple[np.ndarray, np.ndarray]
_Facts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, _Keys, np.ndarray, bool]


def _facts(shard: Shard, spec: PathSpec, own: int | None) -> _Facts:
    """Return the facts of a shard's rows, what they are split by, and the hashes of their first ``own`` features."""
    rows = shard.load()
    hashes, classes = split_keys(rows, spec.seed) if spec.splits else (np.empty(0), np.empty(0))
    features = np.empty(0, np.uint64)
    if own is not None:
        features = feature_hashes((rows.indptr, rows.indices, rows.values), own)
    lengths = np.diff(rows.indptr).astype(np.int32, copy=False)
    wide = bool(rows.values.dtype == np.float64)
    return (
        np.array(rows.norms),
        lengths,
        np.array(rows.costs),
        np.array(rows.labels),
        (np.array(hashes), np.array(classes)),
        features,
        wide,
    )


def _weigh_classes(arrays: RowState, spec: PathSpec, path: str) -> None:
    counts = {-1: 0, 1: 0}
    for part in arrays.chunks():
        used = arrays.labels[part][arrays.costs[part] > 0]
        counts[1] += int(np.count_nonzero(used == 1))
        counts[-1] += int(np.count_nonzero(used == -1))
    arrays.trained = counts[-1] + counts[1]
    if not (counts[-1] and counts[1]):
        raise DataError(f"all {arrays.trained:,} rows to train on have the same label; an SVM needs both", path=path)
    if spec.class_weight is None:
        return
    if spec.class_weight == "balanced":
        weights = {y: arrays.trained / (2 * count) for y, count in counts.items()}
    else:
        negative, positive = spec.sign_weights
        weights = {-1: negative, 1: positive}
    arrays.class_weights = weights[-1], weights[1]
    for part in arrays.chunks():
        arrays.costs[part] *= np.where(arrays.labels[part] == 1, weights[1], weights[-1])
    if arrays.left_out_costs is not None:
        arrays.left_out_costs *= np.where(arrays.labels[arrays.held_out()] == 1, weights[1], weights[-1])
