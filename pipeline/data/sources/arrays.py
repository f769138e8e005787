"""A dense matrix in memory as a source: the data sets that scikit-learn bundles."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from pipeline.data.block import Block, Origin, ReadRules, make_block
from pipeline.data.labels import RawLabels
from pipeline.data.sources.base import Task


class ArraySource:
    """Rows x and labels y that are in memory already; ``path`` is the name they go by."""

    format = "arrays"
    columns: tuple[str, ...] | None = None
    rules = ReadRules(base=0)

    def __init__(self, name: str, x: np.ndarray, y: np.ndarray) -> None:
        self.path, self.x, self.y = name, x, y
        self.size: int = x.nbytes
        self.n_features: int | None = x.shape[1]

    def tasks(self) -> Iterator[Task]:
        """Yield the one block there is."""
        yield self._block

    def _block(self) -> Block:
        csr = sp.csr_array(self.x)
        arrays = csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data.astype(np.float64)
        block = make_block(Origin(self.path), RawLabels.of(self.y), arrays, self.rules)
        return block.with_source_bytes(self.size)
