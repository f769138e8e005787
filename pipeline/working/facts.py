"""The facts of every row (norm, length, cost, label), collected in one pass: what a run begins with.

Costs are settled here: class weights, and 0 for rows that are left out of training.
"""

from __future__ import annotations

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
from pipeline.working.state import ByRow, RowState, blocks_of, ends_of


def collect(
    engine: Engine, data: Dataset, spec: PathSpec, scratch: Path | None, trained: SketchMaker | None = None
) -> RowState:
    """Collect the facts of all rows in one pass, and settle their costs: class weights, and 0 for rows left out.

    ``trained`` is given the rows that are not left out.
    """
    data.expect_two_classes("a path")
    arrays = RowState(data.n_rows, scratch, ends_of(blocks_of(data.shards)), engine)
    own = None if trained is None else data.own_features
    keys = (arrays.empty(np.uint64), arrays.empty(np.int32)) if spec.splits else None
    known = arrays.empty(np.uint64) if spec.splits and trained is not None else None
    row = 0
    for norms, lengths, costs, labels, (hashes, classes), features, wide in engine.stream(
        facts_of, data.shards, spec, own
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
Facts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, _Keys, np.ndarray, bool]


def facts_of(shard: Shard, spec: PathSpec, own: int | None) -> Facts:
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
    settle_weights(arrays, spec, path)
    if spec.class_weight is not None and arrays.left_out_costs is not None:
        negative, positive = arrays.class_weights
        arrays.left_out_costs *= np.where(arrays.labels[arrays.held_out()] == 1, positive, negative)


def settle_weights(rows: RowState, spec: PathSpec, path: str) -> None:
    """Count the rows of both classes that are trained on, and multiply costs by the weights of their classes."""
    parts = rows.each(_class_counts, rows.labels, rows.costs)
    counts = {y: sum(part[k] for part in parts) for k, y in enumerate((-1, 1))}
    rows.trained = counts[-1] + counts[1]
    if not rows.trained:
        raise DataError("no row is left to train on; leave out fewer of them", path=path)
    if not (counts[-1] and counts[1]):
        raise DataError(f"all {rows.trained:,} rows to train on have the same label; an SVM needs both", path=path)
    if spec.class_weight is None:
        return
    if spec.class_weight == "balanced":
        rows.class_weights = rows.trained / (2 * counts[-1]), rows.trained / (2 * counts[1])
    else:
        rows.class_weights = spec.sign_weights
    weighted = rows.empty()
    rows.later(_weigh, weighted, rows.costs, rows.labels, rows.class_weights)
    rows.costs = weighted


def _class_counts(part: slice, labels: ByRow, costs: ByRow) -> tuple[int, int]:
    used = labels[part][costs[part] > 0]
    return int(np.count_nonzero(used == -1)), int(np.count_nonzero(used == 1))


def _weigh(part: slice, weighted: ByRow, costs: ByRow, labels: ByRow, weights: tuple[float, float]) -> None:
    weighted[part] = costs[part] * np.where(labels[part] == 1, weights[1], weights[0])
