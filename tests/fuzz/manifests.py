"""manifest.json with names, numbers and types that are none: opened, appended to, compacted, copied."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.shards.compact import compact
from pipeline.data.stores.transfer import copy_shards
from pipeline.errors import SieveError
from tests.fuzz.judge import Target, WrongError
from tests.fuzz.mutate import VALUES, mutated_json
from tests.fuzz.shardset import CLASS_ROWS, MORE_ROWS, ROWS, expect_same, shard_set, worth_of

NAMES = (
    "../secret",
    "./shard-00000.arrow",
    "shard-00001.arrow",
    "shard-00003.arrow",
    "shard-0.arrow",
    "manifest.json",
    "",
)


class Manifests(Target):
    """A data set whose shards are whole."""

    name = "manifests"
    share, rows = 2, ROWS

    def prepare(self, folder: Path) -> None:
        """Make the data set, and have appending compiled."""
        self.set = shard_set(folder, self.rows)
        more = folder / "more.svm"
        more.write_text(MORE_ROWS)
        ingest([str(more)], folder / "made", IngestSpec(append=True, workers=1))
        copy_shards(str(folder / "made"), str(folder / "copied"))

    def attempt(self, chance: Random, folder: Path) -> None:
        """Change the manifest, use the data set, and look for what it must never do."""
        data = folder / "data"
        self.set.put(data, mutated_json(chance, self.set.manifest, (*VALUES, *NAMES)))
        secret, (content, modified) = folder / "secret", self.set.files["shard-00000.arrow"]
        secret.write_bytes(content)
        os.utime(secret, ns=(modified, modified))
        action = chance.random()
        if action < 0.7:
            self._open(data)
        elif action < 0.85:
            self._append(folder, data)
        elif action < 0.9:
            self._compact(data)
        else:
            copied = copy_shards(str(data), str(folder / "copied"))
            if copied.manifest.rows != self.set.manifest["rows"]:
                raise WrongError("the copy has other rows")
            self._open(folder / "copied")

    def _open(self, folder: Path) -> None:
        data = open_shards(folder)
        for shard in data.shards:
            if Path(shard.path).parent != folder or not Path(shard.path).is_file():  # type: ignore[attr-defined]
                raise WrongError("a shard is outside the directory", str(shard))
        if data.n_features != self.set.manifest["features"]:
            raise WrongError("it has other features", str(data.n_features))
        expect_same(worth_of(data), self.set.worth, "the rows are others")

    def _append(self, folder: Path, data: Path) -> None:
        more = folder / "more.svm"
        more.write_text(MORE_ROWS)
        try:
            ingest([str(more)], data, IngestSpec(append=True, workers=1))
        except SieveError:
            self._expect_all(data)
            raise
        self._expect_all(data)
        if open_shards(data).n_rows != self.set.manifest["rows"] + 2:
            raise WrongError("rows were lost by an append")

    def _compact(self, data: Path) -> None:
        try:
            compact(data)
        except SieveError:
            self._expect_all(data)
            raise
        if open_shards(data, full_check=True).fingerprint != self.set.manifest["fingerprint"]:
            raise WrongError("rows were lost by merging shards")

    def _expect_all(self, data: Path) -> None:
        for name, (content, _) in self.set.files.items():
            if not (data / name).is_file() or (data / name).read_bytes() != content:
                raise WrongError("a change that failed or appends removed or changed a shard", name)


class ClassManifests(Manifests):
    """The same of several classes."""

    name = "class-manifests"
    share, rows = 1, CLASS_ROWS
