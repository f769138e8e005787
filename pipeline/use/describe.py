"""What a data set looks like: its size, its label balance, how long its rows are and how large their norms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine

# The ends and the middle, and how far out the few are: long rows set what a block takes, large norms what C does
QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.99, 1.0)


@dataclass(frozen=True)
class Description:
    """The numbers ``svmsieve datasets describe`` shows; quantiles are at ``QUANTILES``.

    ``classes`` are rows by class where there are three or more, else empty; then nothing is positive or negative.
    """

    path: str
    kind: str
    rows: int
    features: int
    nnz: int
    density: float
    positives: int
    negatives: int
    positive_labels: tuple[str, ...]
    negative_labels: tuple[str, ...]
    classes: dict[str, int]
    bias: float
    cost_total: float
    cost_range: tuple[float, float]
    row_lengths: tuple[float, ...]
    norms: tuple[float, ...]
    shards: int
    bytes: int
    fingerprint: str

    def to_json(self) -> dict[str, object]:
        """Return a form for ``--json``."""
        return {**asdict(self), "quantiles": QUANTILES}


@dataclass(frozen=True)
class _Part:
    """What one shard contributes."""

    lengths: np.ndarray
    norms: np.ndarray
    cost_total: float
    cost_low: float
    cost_high: float


def describe(engine: Engine, data: Dataset) -> Description:
    """Describe a data set in one pass."""
    total = engine.reduce(_part, data.shards, _merge)
    assert total.norms.shape == total.lengths.shape == (data.n_rows,)
    return Description(
        path=data.path,
        kind=data.kind,
        rows=data.n_rows,
        features=data.n_features,
        nnz=data.nnz,
        density=data.nnz / (data.n_rows * data.n_features),
        positives=data.n_positive,
        negatives=0 if data.classes else data.n_rows - data.n_positive,
        positive_labels=data.labels.positive,
        negative_labels=data.labels.negative,
        classes=dict(zip(data.classes, data.class_counts, strict=True)),
        bias=data.bias,
        cost_total=total.cost_total,
        cost_range=(total.cost_low, total.cost_high),
        row_lengths=tuple(np.quantile(total.lengths, QUANTILES).tolist()),
        norms=tuple(np.quantile(total.norms, QUANTILES).tolist()),
        shards=len(data.shards),
        bytes=data.bytes,
        fingerprint=data.fingerprint,
    )


def _part(shard: Shard) -> _Part:
    rows = shard.load()
    costs = rows.costs
    totals = float(costs.sum()), float(costs.min()), float(costs.max())
    return _Part(np.diff(rows.indptr), np.array(rows.norms), *totals)


def _merge(parts: Sequence[_Part]) -> _Part:
    return _Part(
        np.concatenate([p.lengths for p in parts]),
        np.concatenate([p.norms for p in parts]),
        sum(p.cost_total for p in parts),
        min(p.cost_low for p in parts),
        max(p.cost_high for p in parts),
    )
