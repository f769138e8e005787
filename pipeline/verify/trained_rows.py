"""Which rows a run was trained on and with which costs, from its settings and the data alone; for ``verify``."""

from __future__ import annotations

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.shards.digest import Lanes, digest_rows, fingerprint, row_hashes
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import DatasetError
from pipeline.spec import PathSpec
from pipeline.verify.split import left_out


@dataclass(frozen=True)
class TrainedRows:
    """The rows' labels and effective costs c_i: cost times class weight, 0 for rows left out.

    ``left_out_costs`` are those that the rows left out would have, in row order.
    """

    costs: np.ndarray
    labels: np.ndarray
    class_weights: tuple[float, float]
    left_out_costs: np.ndarray | None = None

    @property
    def count(self) -> int:
        """How many rows were trained on."""
        return int(np.count_nonzero(self.costs))

    @property
    def held_out(self) -> np.ndarray:
        """The labels of the rows left out, in row order."""
        return self.labels[self.costs == 0.0]


def trained_rows(engine: Engine, data: Dataset, spec: PathSpec) -> TrainedRows:
    """Read costs and labels of all rows, in one pass; the data must have their fingerprint."""
    costs, labels = np.empty(data.n_rows), np.empty(data.n_rows, np.int8)
    hashes, classes = (np.empty(data.n_rows if spec.splits else 0, kind) for kind in (np.uint64, np.int32))
    digests: list[tuple[Lanes, int]] = []
    row = 0
    for signs, some, known, lanes in engine.stream(_shard_costs, data.shards, spec.splits):
        part = slice(row, row + some.size)
        labels[part], costs[part] = signs, some
        if spec.splits:
            hashes[part], classes[part] = known
        digests.append((lanes, some.size))
        row = part.stop
    assert row == data.n_rows
    if data.fingerprint_of(fingerprint(digests, data.n_features)) != data.fingerprint:
        raise DatasetError(f"{data.path}: the rows are not those of its fingerprint; ingest the data again")
    own = costs.copy() if spec.splits else costs
    if spec.splits:
        costs[left_out(hashes, classes, spec)] = 0.0
    counts = {y: int(np.count_nonzero(costs[labels == y])) for y in (-1, 1)}
    if isinstance(spec.class_weight, str):  # balanced
        weights = {y: (counts[-1] + counts[1]) / (2 * counts[y]) for y in counts}
    else:
        negative, positive = spec.sign_weights
        weights = {-1: negative, 1: positive}
    for y, weight in weights.items():
        costs[labels == y] *= weight
    left = costs == 0.0
    others = own[left] * np.where(labels[left] > 0, weights[1], weights[-1])
    return TrainedRows(costs, labels, (weights[-1], weights[1]), others)


_Keys = tuple[np.ndarray, np.ndarray]


def _shard_costs(shard: Shard, splits: bool) -> tuple[np.ndarray, np.ndarray, _Keys, Lanes]:
    """Return labels, costs, what rows are split by (the hash of a row and its class, or that of its group), digest."""
    rows = shard.load()
    keys = np.empty(0, np.uint64), np.empty(0, np.int32)
    if splits and rows.groups is not None:
        keys = np.array(rows.groups), np.zeros(rows.n_rows, np.int32)
    elif splits:
        keys = row_hashes(rows), np.array((rows.stored or rows).labels, np.int32)
    return np.array(rows.labels), np.array(rows.costs), keys, digest_rows(rows)
