"""Correct a shard that was written before the last row was seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pipeline.data.ingest.assemble import UNKNOWN_BIAS_INDEX
from pipeline.data.shards.mapping import map_shard
from pipeline.data.shards.shard import ShardInfo, write_shard


@dataclass(frozen=True)
class Amendment:
    """Turn the labels of the first ``flip_rows`` rows, add ``shift`` to the indices, set the bias column's index."""

    flip_rows: int = 0
    shift: int = 0
    bias_index: int | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return self.flip_rows > 0 or self.shift != 0 or self.bias_index is not None


def amend_shard(directory: Path, info: ShardInfo, amendment: Amendment) -> ShardInfo:
    """Write the shard again with the amendment made."""
    rows = map_shard(str(directory / info.name), UNKNOWN_BIAS_INDEX)
    labels = rows.labels.copy()
    np.negative(labels[: amendment.flip_rows], out=labels[: amendment.flip_rows])
    indices = rows.indices.copy()
    is_bias = indices == UNKNOWN_BIAS_INDEX
    indices[~is_bias] += amendment.shift
    if amendment.bias_index is not None:
        indices[is_bias] = amendment.bias_index
    return write_shard(directory, info.name, replace(rows, labels=labels, indices=indices))
