"""Correct a shard that was written before the last row was seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from pipeline.data.ingest.assemble import UNKNOWN_BIAS_INDEX
from pipeline.data.shards.mapping import map_shard
from pipeline.data.shards.shard import ShardInfo, write_shard
from pipeline.dataclass import dataclass


@dataclass(frozen=True)
class Relabelling:
    """What labels were written as (``then``, by their numbers) and what they are in the end (``now``)."""

    then: np.ndarray
    now: np.ndarray

    def changes(self, present: np.ndarray) -> bool:
        """Tell whether a shard that has the labels of these numbers is written otherwise now."""
        return self.then.dtype != self.now.dtype or bool((self.then[present] != self.now[present]).any())

    def of(self, labels: np.ndarray) -> np.ndarray:
        """Return what labels of a shard are in the end."""
        order = np.argsort(self.then)
        return self.now[order[np.searchsorted(self.then[order], labels)]]


@dataclass(frozen=True)
class Amendment:
    """Write labels as they are in the end, add ``shift`` to the indices, set the bias column's index."""

    labels: Relabelling | None = None
    shift: int = 0
    bias_index: int | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return self.labels is not None or self.shift != 0 or self.bias_index is not None


def amend_shard(directory: Path, info: ShardInfo, amendment: Amendment, classes: int) -> ShardInfo:
    """Write the shard again with the amendment made; ``classes`` 0 means labels -1/+1."""
    rows = map_shard(str(directory / info.name), UNKNOWN_BIAS_INDEX)
    labels = rows.labels if amendment.labels is None else amendment.labels.of(rows.labels)
    indices = rows.indices.copy()
    is_bias = indices == UNKNOWN_BIAS_INDEX
    indices[~is_bias] += amendment.shift
    if amendment.bias_index is not None:
        indices[is_bias] = amendment.bias_index
    return write_shard(directory, info.name, replace(rows, labels=labels, indices=indices), classes)
