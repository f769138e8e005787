"""A small shard directory as bytes, put into any folder, and all that a pass makes of it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.shards.manifest import MANIFEST
from pipeline.engine.engine import Engine
from pipeline.passes.products import margins
from pipeline.passes.sums import row_sum
from tests.fuzz.judge import WrongError

ROWS = """\
1 1:0.1 2:-2.5 5:1e-3
-1 2:1 3:0.25
1 1:3
-1 4:7.125 7:0.3
1 7:-1
-1 1:1 2:1 3:1 4:1 5:1 6:1 7:1
1 3:1e10
-1 6:-0.7
"""
CLASS_ROWS = ROWS.replace("1 7:-1", "2 7:-1").replace("-1 6:-0.7", "10 6:-0.7")
MORE_ROWS = "1 1:1 8:2\n-1 2:0.5\n"


@dataclass(frozen=True)
class ShardSet:
    """A data set of three shards. ``files`` are its files but for the manifest, with their times of change."""

    files: dict[str, tuple[bytes, int]]
    manifest: dict[str, Any]
    worth: list[np.ndarray]

    def put(self, folder: Path, manifest: bytes | None = None, **changed: bytes) -> None:
        """Write it to a new folder; a changed file keeps its time of change."""
        folder.mkdir()
        for name, (content, modified) in self.files.items():
            path = folder / name
            path.write_bytes(changed.get(name, content))
            os.utime(path, ns=(modified, modified))
        (folder / MANIFEST).write_bytes(json.dumps(self.manifest).encode() if manifest is None else manifest)


def shard_set(folder: Path, rows: str = ROWS) -> ShardSet:
    """Make it."""
    source, out = folder / "rows.svm", folder / "made"
    source.write_text(rows)
    ingest([str(source)], out, IngestSpec(rows_per_shard=3, workers=1))
    files = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(out.glob("*.arrow"))}
    return ShardSet(files, json.loads((out / MANIFEST).read_text()), worth_of(open_shards(out)))


def worth_of(data: Dataset) -> list[np.ndarray]:
    """Return all arrays of all shards, and the results of passes over them.

    A shard at a time: a data set of one shard needs no graph, which would take most of a case's time.
    """
    found: list[np.ndarray] = []
    with Engine("inline") as engine:
        for shard in data.shards:
            alone = replace(data, shards=(replace(shard, first_row=0),))
            if data.classes:
                alone = alone.against_rest(1, range(1, 1 + len(data.classes)))
            w = np.linspace(-1, 1, data.n_features)
            found += [margins(engine, alone, w), row_sum(engine, alone, np.ones(shard.n_rows))]
            rows, mine = shard.load(), alone.shards[0].load()
            found += [mine.labels, mine.costs]
            found += [rows.indptr, rows.indices, rows.values, rows.labels, rows.costs, rows.norms]
    return [np.array(array) for array in found]


def expect_same(found: list[np.ndarray], wanted: list[np.ndarray], kind: str) -> None:
    """Raise unless the arrays are the same, to the bit."""
    same = len(found) == len(wanted) and all(a.tobytes() == b.tobytes() for a, b in zip(found, wanted, strict=True))
    if not same:
        raise WrongError(kind)
