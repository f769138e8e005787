"""K classes in one command against K commands: scikit-learn's digits (10), and made text (20 classes, 200,000 rows).

One: ``svmsieve train SHARDS --c C``, where the shards have all classes: K certified models, one against the rest.
K: ``svmsieve train SHARDS-k --c C`` for every class k, on shards that were ingested with ``--positive k``. Ingesting is
not timed; every command is a process of its own, start-up included. They take turns, ``--rounds`` times, and the best
times count. The models must be the same to the bit.

python -m tests.bench.classes [--sets digits text] [--c 1] [--rounds 1] [--rows N]
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np

import pipeline
from pipeline.data.ingest.ingest import IngestSpec, Input
from tests.bench.many import arguments, command, open_memory
from tests.bench.measure import verdict
from tests.bench.path import load_compiled

SETS = ("digits", "text")


def compare(name: str, folder: Path, options: argparse.Namespace) -> float:
    rows = open_memory(name, options)
    names = [str(label) for label in np.unique(rows.y)]
    print(f"{rows.said()}, {len(names)} classes", flush=True)
    shards = rows.shards(folder / name)
    parts = [folder / f"{name}-{label}" for label in names]
    for label, part in zip(names, parts, strict=True):
        pipeline.ingest([Input(str(shards.with_suffix(".npz")))], part, IngestSpec(positive=label))
    one, several = math.inf, math.inf
    for k in range(options.rounds):
        out = folder / f"{name}-run-{k}"
        one = min(one, command("train", shards, "--c", options.c, "--out", out))
        several = min(several, sum(command("train", p, "--c", options.c, "--out", f"{p}-run-{k}") for p in parts))
    pairs = [(out / "classes" / str(j), Path(f"{part}-run-{options.rounds - 1}")) for j, part in enumerate(parts)]
    same = all(models(inside) == models(alone) for inside, alone in pairs)
    print(
        f"  one command {one:.1f} s, {len(names)} commands {several:.1f} s; models identical to the bit: {said(same)}"
    )
    return several / one


def models(run: Path) -> list[bytes]:
    """Return the model files of a run; there must be some."""
    found = [path.read_bytes() for path in sorted((run / "models").glob("*.npz"))]
    assert found, f"{run}: no models"
    return found


def said(same: bool) -> str:
    return "yes" if same else "NO"


def main() -> None:
    parser = arguments(__doc__, SETS)
    parser.add_argument("--c", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="classes-") as folder:
        home = Path(folder)
        load_compiled(home / "small")
        command("train", home / "small", "--c", 0.1, "--out", home / "small-run")
        ratios = {name: compare(name, home, options) for name in options.sets}
    for name, ratio in ratios.items():
        print(verdict(f"K commands' time over one's, {name}", ratio, 4.0))


if __name__ == "__main__":
    main()
