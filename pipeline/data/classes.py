"""One class against the rest: the rows of a data set of K classes, seen as those of two.

Class k is +1 and every other -1; nothing is copied but a label a row, where a shard is loaded. Weights by class
multiply the cost of every row of a class, in all K views. A view's rows are those of the data set (digests stay), its
problem is another: its fingerprint is made of the data set's, the class and the weights.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.data.shards.rows import Rows
from pipeline.dataclass import dataclass

if TYPE_CHECKING:
    from pipeline.data.dataset import Shard


@dataclass(frozen=True)
class OneAgainstRest:
    """The class that is +1, by its code, and the weights of all classes; None: all are 1."""

    code: int
    weights: tuple[float, ...] | None = None

    def fingerprint(self, base: str) -> str:
        """Return the fingerprint of the view of a data set that has this one."""
        weights = "" if self.weights is None else " ".join(map(float.hex, self.weights))
        return hashlib.sha256(f"svmsieve {base} class {self.code} weights {weights}".encode()).hexdigest()

    def of(self, rows: Rows) -> Rows:
        """Return rows that have codes of classes as rows that have signs."""
        labels = np.where(rows.labels == self.code, np.int8(1), np.int8(-1))
        costs = rows.costs if self.weights is None else rows.costs * np.array(self.weights)[rows.labels]
        return replace(rows, labels=labels, costs=costs, stored=rows)


@dataclass(frozen=True)
class ClassShard:
    """A shard of a view: that of the data set, ``base``, with the class ``code`` against the rest."""

    base: Shard
    view: OneAgainstRest

    @property
    def code(self) -> int:
        """The class that is +1."""
        return self.view.code

    @property
    def path(self) -> str:
        """What people call it."""
        return str(getattr(self.base, "path", ""))

    @property
    def first_row(self) -> int:
        """The number of its first row in the data set."""
        return self.base.first_row

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.base.n_rows

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return self.base.nnz

    @property
    def digest(self) -> str:
        """The digest of the rows as they are in the data set."""
        return self.base.digest

    def load(self) -> Rows:
        """Return the rows, with labels -1 and +1."""
        return self.view.of(self.base.load())
