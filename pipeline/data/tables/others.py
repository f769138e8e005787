"""Values that an encoding has no feature for, and cells with nothing in them: how many, and when that is worth a line.

Rare values were ``column=(other)`` in training, too, so some are usual. If most rows of a file have them, its values
are written in another way than they were, or are others altogether. A column that is empty was not so in training, or
it would have no feature: one is left out of the file, or is called otherwise there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.data.reading.block import Block
from pipeline.data.tables.encoding import Encoding
from pipeline.data.tables.features import Category, Date, Number

MANY = 0.5  # of the rows
FEW = 10  # rows: of so few a column may well be empty


class Others:
    """Counts, by column, the rows whose value is rare or new, and those that have none.

    A number that is the mean has no nonzero, and where gaps have no feature of their own neither have they.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.other, self.gap, self.mean = dict[str, int](), dict[str, int](), dict[str, int]()
        for role, first in zip(encoding.roles, encoding.firsts, strict=True):
            name = " & ".join(role.columns)
            if isinstance(role, Category):
                self.other[name] = first + len(role.values)
            if isinstance(role, Category | Date) or (isinstance(role, Number) and role.width > 1):
                self.gap[name] = first + role.width - 1
            elif isinstance(role, Number) and role.gap == role.mean:
                self.mean[name] = first
        self.features = np.array([*self.other.values(), *self.gap.values(), *self.mean.values()], np.int32)
        self.counts, self.rows = np.zeros(1 + self.features.max(initial=-1), np.int64), 0

    def count(self, block: Block) -> None:
        """Take in the rows of a block."""
        self.rows += block.n_rows
        if self.features.size:
            self.counts += np.bincount(block.indices[np.isin(block.indices, self.features)], minlength=self.counts.size)

    def notes(self) -> Iterator[str]:
        """Say of which columns most values were rare or new, and which have none."""
        for name, feature in self.other.items():
            count = int(self.counts[feature])
            if count > MANY * self.rows:
                rows = f"{count:,} of {self.rows:,} rows"
                yield f"column '{name}': {rows} have a value that was rare in training, or not there"
        if self.rows <= FEW:
            return
        for name, feature in self.gap.items():
            if self.counts[feature] == self.rows:
                yield f"column '{name}' is empty in all {self.rows:,} rows, and was not in training"
        for name, feature in self.mean.items():
            if self.counts[feature] == 0:
                yield f"column '{name}': all {self.rows:,} rows count as its mean, as empty cells do"
