"""Shards with a bit flipped anywhere, cut or swapped, of the size and the time that the manifest knows.

In half of the cases the manifest knows the damaged file's checksum, as its author or an option may have it: then
nothing but the form of the file is between it and the kernels.
"""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from random import Random

import numpy as np

from pipeline.data.dataset import Dataset, open_shards
from tests.fuzz.judge import Target, WrongError
from tests.fuzz.mutate import flipped, mutated
from tests.fuzz.shardset import CLASS_ROWS, ROWS, expect_same, shard_set, worth_of


class Shards(Target):
    """A data set with a whole manifest."""

    name = "shards"
    rows = ROWS

    def prepare(self, folder: Path) -> None:
        """Make the data set."""
        self.set = shard_set(folder, self.rows)

    def attempt(self, chance: Random, folder: Path) -> None:
        """Damage a shard, pass over the data; what is not refused must be as if undamaged."""
        name = chance.choice(list(self.set.files))
        content, kind = self.set.files[name][0], chance.random()
        if kind < 0.7:
            damaged = flipped(chance, content)
        elif kind < 0.9:
            damaged = mutated(chance, content)
        else:
            damaged = self.set.files[chance.choice(list(self.set.files))][0]
        if kind >= 0.7 and chance.random() < 0.7:
            damaged = damaged[: len(content)].ljust(len(content), b"\0")
        if chance.random() < 0.5:
            self.set.put(folder / "data", **{name: damaged})
            expect_same(worth_of(open_shards(folder / "data")), self.set.worth, "a damaged shard was used")
        else:
            self.set.put(folder / "data", self._vouching(name, damaged), **{name: damaged})
            _expect_sound(open_shards(folder / "data"))

    def _vouching(self, name: str, content: bytes) -> bytes:
        """Return a manifest that says of a damaged shard what is true."""
        item = copy.deepcopy(self.set.manifest)
        for shard in item["shards"]:
            if shard["name"] == name:
                shard |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        return json.dumps(item).encode()


class ClassShards(Shards):
    """The same of several classes."""

    name = "class-shards"
    rows = CLASS_ROWS


def _expect_sound(data: Dataset) -> None:
    """Raise unless a kernel that has no bounds may use what the shards give; and use it."""
    worth_of(data)
    for rows in (shard.load() for shard in data.shards):
        ends = [rows.costs.size + 1, rows.norms.size + 1, rows.labels.size + 1]
        if ends != [rows.indptr.size] * 3 or rows.indptr[0] != 0 or np.any(np.diff(rows.indptr) < 0):
            raise WrongError("row pointers that are none were used")
        if not rows.indptr[-1] == rows.indices.size == rows.values.size:
            raise WrongError("values beyond the end were used")
        if rows.nnz and not 0 <= rows.indices.min() <= rows.indices.max() < data.n_features:
            raise WrongError("an index beyond the features was used")
        if data.classes and not 0 <= rows.labels.min() <= rows.labels.max() < len(data.classes):
            raise WrongError("a code that is no class was used")
