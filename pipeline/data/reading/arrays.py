"""A dense matrix in memory as a source: the data sets that scikit-learn bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from pipeline.data.reading.base import BlockTask
from pipeline.data.reading.block import Block, Origin, ReadRules, make_block
from pipeline.data.reading.labels import RawLabels


class ArraySource:
    """Rows x and labels y that ``load`` brings into memory when they are wanted; ``path`` is the name they go by."""

    format = "arrays"
    columns: tuple[str, ...] | None = None
    rules = ReadRules(base=0)

    def __init__(self, name: str, load: Callable[[], tuple[np.ndarray, np.ndarray]]) -> None:
        self.path, self.load = name, load

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """x and y."""
        return self.load()

    @property
    def size(self) -> int:
        """Bytes of x."""
        return int(self.arrays[0].nbytes)

    @property
    def n_features(self) -> int | None:
        """Columns of x."""
        return int(self.arrays[0].shape[1])

    def tasks(self) -> Iterator[BlockTask]:
        """Yield the one block there is."""
        yield self._block

    def _block(self) -> Block:
        import scipy.sparse as sp  # noqa: PLC0415 - slow to import, and no other source needs it

        x, y = self.arrays
        csr = sp.csr_array(x)
        arrays = csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data.astype(np.float64)
        block = make_block(Origin(self.path), RawLabels.of(y), arrays, self.rules)
        return block.with_source_bytes(self.size)
