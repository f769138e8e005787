"""Values that an encoding has no feature for: how many rows have them, and when that is worth a line.

Rare values were ``column=(other)`` in training, too, so some are usual. If most rows of a file have them, its values
are written in another way than they were, or are others altogether.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.data.reading.block import Block
from pipeline.data.tables.encoding import Encoding
from pipeline.data.tables.features import Category

MANY = 0.5  # of the rows


class Others:
    """Counts, by column, the rows whose value is rare or new."""

    def __init__(self, encoding: Encoding) -> None:
        pairs = zip(encoding.roles, encoding.firsts, strict=True)
        places = {first + len(role.values): role for role, first in pairs if isinstance(role, Category)}
        self.features = np.array(list(places), np.int32)
        self.names = [" & ".join(role.columns) for role in places.values()]
        self.counts, self.rows = np.zeros(self.features.size, np.int64), 0

    def count(self, block: Block) -> None:
        """Take in the rows of a block."""
        self.rows += block.n_rows
        if self.features.size:
            found = np.bincount(block.indices[np.isin(block.indices, self.features)], minlength=self.features.max() + 1)
            self.counts += found[self.features]

    def notes(self) -> Iterator[str]:
        """Say of which columns most values were rare or new."""
        for name, count in zip(self.names, self.counts.tolist(), strict=True):
            if count > MANY * self.rows:
                rows = f"{count:,} of {self.rows:,} rows"
                yield f"column '{name}': {rows} have a value that was rare in training, or not there"
