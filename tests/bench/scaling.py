"""One worker against two, and the cluster against threads on the same data: passes a second, and a short path.

Workers have one thread each and are processes on this machine with TLS between them. Rivals take turns.

python -m tests.bench.scaling [--scale 0.1] [--rounds 7] [--shard-bytes 8000000]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import dask
import numpy as np

from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.registry.synthetic import make
from pipeline.engine.engine import Engine
from pipeline.passes.products import margins
from pipeline.passes.sums import cost_sum
from pipeline.path.train import train_run
from pipeline.spec import PathSpec
from tests.bench.measure import take_turns
from tests.clusters import real_cluster

PATH = {"grid": (10.0, 30.0, 100.0, 300.0, 1000.0), "grid_in_c_min": True, "tol": 1e-3, "memory": 4_000_000_000}
COMPARED = (
    ("threads 2", "threads 1"),
    ("cluster 2", "cluster 1"),
    ("cluster 1", "threads 1"),
    ("cluster 2", "threads 2"),
)


def short_path(engine: Engine, data: Dataset, out: Path) -> list[bytes]:
    shutil.rmtree(out, ignore_errors=True)
    run = train_run(engine, data, PathSpec(**PATH), out)
    return [path.read_bytes() for path in sorted((run.path / "models").glob("*.npz"))]


def compare(what: str, seconds: dict[str, float]) -> None:
    print(f"{what}:")
    for name, found in seconds.items():
        print(f"  {name:<10} {found * 1e3:9.1f} ms  {1 / found:7.2f} a second")
    for one, other in COMPARED:
        print(f"  {one} is {seconds[other] / seconds[one]:.2f} times as fast as {other}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shard-bytes", type=int, default=8_000_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scaling-")))
        make("url-like", folder / "shards", options.scale, shard_bytes=options.shard_bytes)
        data = open_shards(folder / "shards")
        print(f"{data.n_rows:,} rows, {data.n_features:,} features, {data.nnz:,} nonzeros, {len(data.shards)} shards")
        engines = {f"threads {n}": stack.enter_context(Engine("threads", n)) for n in (1, 2)}
        for n in (1, 2):
            cluster = stack.enter_context(real_cluster(folder / f"cluster-{n}", n))
            with dask.config.set(cluster.configuration()):
                engines[f"cluster {n}"] = stack.enter_context(Engine(cluster.address))
        w = np.random.default_rng(0).standard_normal(data.n_features)
        for what, once in (("margins", partial(margins, w=w)), ("cost_sum", cost_sum)):
            rivals = {name: partial(once, engine, data) for name, engine in engines.items()}
            compare(f"{what}, one pass", take_turns(rivals, options.rounds))
        paths = {name: partial(short_path, engine, data, folder / "run") for name, engine in engines.items()}
        same = len({tuple(run()) for run in paths.values()}) == 1
        compare(f"a path of {len(PATH['grid'])} C", take_turns(paths, max(1, options.rounds // 3)))
        print(f"models identical to the bit on all four: {'yes' if same else 'NO'}")


if __name__ == "__main__":
    main()
