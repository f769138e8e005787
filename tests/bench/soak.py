"""Soak: random workers of a TLS cluster are killed (-9) throughout many runs; certificates hold, bits are right.

python -m tests.bench.soak [--kills 100] [--workers 3] [--pause 1.0] [--scale 0.01] [--seed 0]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from pipeline.data.dataset import open_shards
from pipeline.data.registry.synthetic import make
from pipeline.path.fit import fit_path
from tests.clusters import real_cluster
from tests.soak import soak

SETTINGS = {"epsilon": 0.02, "c_max": 1.0, "tol": 1e-3, "memory": 4_000_000_000}


def models(run: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((run / "models").glob("*.npz"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--pause", type=float, default=1.0, help="mean seconds before the next kill")
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        make("url-like", folder / "shards", options.scale, shard_bytes=2_000_000)
        data = open_shards(folder / "shards")
        expected = models(fit_path(data, out=folder / "one", **SETTINGS).path)
        begun = time.monotonic()
        with real_cluster(folder / "cluster", options.workers) as cluster:
            chance = random.Random(options.seed)
            kills, runs = soak(cluster, data, SETTINGS, folder / "runs", options.kills, chance, options.pause)
        same = all(models(run) == expected for run in runs)
        print(
            f"{kills} workers killed in {time.monotonic() - begun:.0f} s during {len(runs)} runs of {len(expected)} "
            f"models: every certificate holds, identical to one machine {'yes' if same else 'NO'}"
        )
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
