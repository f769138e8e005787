"""Dask bags of dicts (or texts) as partitions: a hasher turns each into CSR rows where it is computed.

    {"words": 3, "country=AT": 1} -> FeatureHasher(n_features=2**20) -> 20 bits of a hash say which feature it is

A hasher is stateless, so that workers need not agree on anything: scikit-learn's FeatureHasher for dicts and lists of
tokens, HashingVectorizer for texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.collections.dask_arrays import aligned
from pipeline.collections.matrices import MatrixReader, expect_two_dimensions
from pipeline.collections.part import Part
from pipeline.collections.partitioned import Partitioned
from pipeline.data.reading.block import Block, Origin
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

NAME = "the Dask bag"


@dataclass(frozen=True)
class HashReader:
    """Reads lists of dicts with a hasher; without labels that are given apart each has its label under ``label``."""

    hasher: Any
    label: str
    unlabelled: bool = False

    columns: None = None
    encoding: None = None

    @property
    def n_features(self) -> int:
        """The number of features the hasher makes."""
        return int(self.hasher.n_features)

    def blocks(self, part: Part) -> Iterator[Block]:
        """Yield the rows of a part in order."""
        rows = list(part.x)
        if not rows:
            return
        y = None if part.y is None else list(part.y) if not hasattr(part.y, "dtype") else part.y
        if y is None and not self.unlabelled:
            rows, y = self._parted(rows, part.where)
        read = MatrixReader(self.n_features, unlabelled=self.unlabelled)
        yield from read.blocks(Part(self._hashed(rows, part.where), part.where, y, part.weight))

    def _hashed(self, rows: list[Any], where: str) -> Any:
        try:
            return self.hasher.transform(rows)
        except Exception as error:
            said = (str(error).splitlines() or [""])[0]
            problem = f"the hasher cannot read these rows ({type(error).__name__}: {said})"
            raise DataError(f"{problem}; its input_type and the rows must agree", path=where) from error

    def _parted(self, rows: list[Any], where: str) -> tuple[list[dict[str, Any]], list[Any]]:
        """Take the label out of every dict."""
        others, labels = [], []
        for k, row in enumerate(rows):
            if not isinstance(row, Mapping) or row.get(self.label) is None:
                problem = f"no label under '{self.label}'; name another key with label=, or give y"
                raise Origin(where, 0).error(k, problem)
            others.append({key: value for key, value in row.items() if key != self.label})
            labels.append(row[self.label])
        return others, labels


def partitions_of_bag(bag: Any, y: Any, weight: Any, hasher: Any, label: str) -> Partitioned:
    """Return the partitions of a bag."""
    reader = bag_reader(hasher, label)
    lengths = (math.nan,) * bag.npartitions
    labels, weights = aligned(y, lengths, "y"), aligned(weight, lengths, "sample_weight")
    return Partitioned(NAME, tuple(bag.to_delayed()), labels, weights, reader)


def bag_reader(hasher: Any, label: str, unlabelled: bool = False) -> HashReader:
    """Return what reads the partitions of a bag, or say in one line what the hasher lacks."""
    if not (hasattr(hasher, "transform") and isinstance(getattr(hasher, "n_features", None), int)):
        cure = "pass hasher=sklearn.feature_extraction.FeatureHasher(n_features=2**20)"
        raise DataError(f"its dicts become rows by a hasher with n_features and transform; {cure}", path=NAME)
    expect_two_dimensions((0, hasher.n_features), NAME)
    return HashReader(hasher, label, unlabelled)
