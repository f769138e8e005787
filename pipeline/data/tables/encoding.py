"""What was learnt from a table, and is applied to every row from then on: which column is which features.

    features:   the roles' own, one role after the other | 2^hash_bits buckets, if anything is hashed | the bias

It is part of the manifest, goes into every run trained on the data, and finds its columns by name: in another order, in
another file format, next to columns it does not know. Two encodings are the same if their ``digest`` is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np
import scipy.sparse as sp

from pipeline.data.reading.block import Origin
from pipeline.data.tables.features import Batch, Category, Date, Hashed, Number, bucket_of
from pipeline.data.tables.survey import readable
from pipeline.data.tables.words import Words
from pipeline.dataclass import dataclass

AnyRole = Number | Category | Date | Hashed | Words
NAMES_SHOWN = 3  # of those that share a bucket


@dataclass(frozen=True)
class LeftOutColumn:
    """A column that is no feature, and why."""

    column: str
    reason: str


@dataclass(frozen=True)
class Encoding:
    """``roles`` make features of columns; ``frequent`` are names of what is hashed, the most frequent first.

    ``asked`` tells the plan that it was learnt by from others.
    """

    roles: tuple[AnyRole, ...]
    label: str
    weight: str | None = None
    group: str | None = None
    ids: tuple[str, ...] = ()
    left_out: tuple[LeftOutColumn, ...] = ()
    hash_bits: int = 0
    frequent: tuple[str, ...] = ()
    asked: str = ""

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The columns that rows need."""
        return tuple(dict.fromkeys(name for role in self.roles for name in role.columns))

    @cached_property
    def not_numbers(self) -> tuple[str, ...]:
        """Those of them that are anything but a number to somebody."""
        others = {name for role in self.roles if not isinstance(role, Number) for name in role.columns}
        return tuple(name for name in self.inputs if name in others)

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The number of each role's first feature; hashed ones begin after all others."""
        ends = list(accumulate(role.width for role in self.roles))
        own = [0, *ends[:-1]]
        return tuple(first if role.width else ends[-1] for first, role in zip(own, self.roles, strict=True))

    @property
    def n_own(self) -> int:
        """How many features are not hashed."""
        return sum(role.width for role in self.roles)

    @property
    def buckets(self) -> int:
        """How many features are shared by all that is hashed."""
        return 1 << self.hash_bits if any(not role.width for role in self.roles) else 0

    @property
    def n_features(self) -> int:
        """How many features there are, the bias left out."""
        return self.n_own + self.buckets

    @property
    def known(self) -> set[str]:
        """Every column that has been decided on: no other was there when this was learnt."""
        aside = (self.label, self.weight, self.group, *self.ids, *(each.column for each in self.left_out))
        return {*self.inputs, *(name for name in aside if name is not None)}

    @cached_property
    def digest(self) -> str:
        """What tells this encoding from others: all that features depend on, and nothing that is only for people."""
        from pipeline.data.tables.stored import to_json  # noqa: PLC0415 - which knows this file

        facts = {key: value for key, value in to_json(self).items() if key in ("roles", "hash_bits", "label", "weight")}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def csr(self, batch: Batch, origin: Origin) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows of a batch as CSR arrays; zeros and equal indices may be among them."""
        n, slots, words = batch.num_rows, [], []
        for role, first in zip(self.roles, self.firsts, strict=True):
            with readable(role.columns, origin):
                if isinstance(role, Words):
                    words.append((role.matrix(batch, origin), first))
                else:
                    slots += [(first + place, value) for place, value in role.slots(batch, origin)]
        indices, values = np.empty((n, len(slots)), np.int32), np.empty((n, len(slots)))
        for k, (place, value) in enumerate(slots):
            indices[:, k], values[:, k] = place, value
        kept = values != 0.0
        indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(kept, axis=1), dtype=np.int64)])
        plain = indptr, indices[kept], values[kept]
        return plain if not words else _beside(plain, words, self.n_features)

    def name(self, j: int) -> str:
        """Return what feature j is called; a bucket by the most frequent names in it, as far as they are known."""
        if j < self.n_own:
            k = int(np.searchsorted(self._ends, j, side="right"))
            return self.roles[k].name(j - self.firsts[k])
        names = [name for name, _ in self.bucket(j)]
        more = f" or {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        return " or ".join(names[:NAMES_SHOWN]) + more if names else f"bucket {j - self.n_own}"

    def bucket(self, j: int) -> list[tuple[str, int]]:
        """Return the names that are known to be hashed to feature j, each with its sign; several of them collide."""
        return self._buckets.get(j - self.n_own, [])

    def names(self, indices: Sequence[int] | np.ndarray) -> list[str]:
        """Return what features are called."""
        return [self.name(int(j)) for j in indices]

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum([role.width for role in self.roles])

    @cached_property
    def _buckets(self) -> dict[int, list[tuple[str, int]]]:
        found: dict[int, list[tuple[str, int]]] = {}
        for name in self.frequent:
            place, sign = bucket_of(name, self.buckets)
            found.setdefault(place, []).append((name, sign))
        return found


def _beside(
    plain: tuple[np.ndarray, np.ndarray, np.ndarray], words: list[tuple[sp.csr_matrix, int]], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows with the entries of texts behind their own: indices that are equal stay two entries."""
    n = plain[0].size - 1
    parts = [plain, *((m.indptr.astype(np.int64), m.indices + np.int32(first), m.data) for m, first in words)]
    lengths = [np.diff(indptr) for indptr, _, _ in parts]
    indptr = np.concatenate([[0], np.cumsum(sum(lengths))])
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
    start = indptr[:-1].copy()
    for (own, some, data), length in zip(parts, lengths, strict=True):
        place = np.repeat(start - own[:-1], length) + np.arange(some.size)
        indices[place], values[place] = some, data
        start += length
    assert n == start.size
    assert not indices.size or indices.max() < width
    return indptr, indices, values
