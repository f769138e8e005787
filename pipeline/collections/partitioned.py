"""A Dask collection as parts that are not computed yet, one a partition, and the reader that will read them."""

from __future__ import annotations

from typing import Any

from pipeline.collections.part import Reader
from pipeline.dataclass import dataclass
from pipeline.errors import DataError


@dataclass(frozen=True)
class Partitioned:
    """The partitions of a collection: rows ``x``, and labels and weights where they are given apart (delayed each)."""

    name: str
    x: tuple[Any, ...]
    y: tuple[Any, ...] | None
    weight: tuple[Any, ...] | None
    reader: Reader
    group: str | None = None

    def __post_init__(self) -> None:
        for what, parts in (("y", self.y), ("sample_weight", self.weight)):
            if parts is not None and len(parts) != len(self.x):
                problem = f"has {len(self.x):,} partitions and {what} {len(parts):,}; they must be cut alike"
                raise DataError(f"{problem}: compute_chunk_sizes() on both lets them be cut", path=self.name)

    def where(self, k: int) -> str:
        """What an error calls a partition; they count from 0, as Dask's do."""
        return f"{self.name}, partition {k}"
