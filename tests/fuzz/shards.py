"""Shards with a bit flipped anywhere, cut or swapped, of the size and the time that the manifest knows."""

from __future__ import annotations

from pathlib import Path
from random import Random

from pipeline.data.dataset import open_shards
from tests.fuzz.judge import Target
from tests.fuzz.mutate import flipped, mutated
from tests.fuzz.shardset import expect_same, shard_set, worth_of


class Shards(Target):
    """A data set with a whole manifest."""

    name = "shards"

    def prepare(self, folder: Path) -> None:
        """Make the data set."""
        self.set = shard_set(folder)

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
        self.set.put(folder / "data", **{name: damaged})
        expect_same(worth_of(open_shards(folder / "data")), self.set.worth, "a damaged shard was used")
