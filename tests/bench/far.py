"""kdda-like at full size (8.4 million rows, 20 million features): two threads, two one-thread workers, LIBLINEAR.

A grid of 7 C from 10 to 10^4 C_min at tol 1e-3, each run a whole command on the same shards; then LIBLINEAR in memory
at the same C with -e values that reach the gap (``--no-liblinear`` leaves that out; it takes 34 to 40 s a C).

python -m tests.bench.far [--scale 1.0] [--shards DIR] [--no-liblinear]
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pipeline
from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.registry.synthetic import make
from tests.bench.measure import verdict
from tests.bench.path import Library, load_compiled
from tests.clusters import RealCluster, real_cluster
from tests.watched import SVMSIEVE

GRID, TOL = "10x:10000x:7", 1e-3


def command(data: Dataset, out: Path, *more: str, cluster: RealCluster | None = None) -> float:
    """Run the whole command; return its seconds."""
    line = [*SVMSIEVE, "path", data.path, "--out", str(out), "--quiet", *more]
    begin = time.perf_counter()
    subprocess.run(
        [*line, "--grid", GRID, "--tol", repr(TOL)],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | (cluster.environment() if cluster else {}),
    )
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--shards", help="where the shards are, or are made")
    parser.add_argument("--no-liblinear", dest="liblinear", action="store_false")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="far-")))
        load_compiled(folder / "small")
        shards = Path(options.shards or folder / "shards")
        if not shards.exists():
            make("kdda-like", shards, options.scale)
        data = open_shards(shards)
        print(f"{data.n_rows:,} rows, {data.n_features:,} features, {data.nnz:,} nonzeros, {len(data.shards)} shards")
        seconds = {"two threads": command(data, folder / "threads", "--workers", "2")}
        print(f"two threads {seconds['two threads']:.1f} s", flush=True)
        with real_cluster(folder / "cluster", 2) as cluster:
            seconds["two workers"] = command(data, folder / "workers", "--scheduler", cluster.address, cluster=cluster)
        runs = {name: pipeline.open_run(folder / name) for name in ("threads", "workers")}
        for name, run in runs.items():
            parts = {key: sum(step.seconds[key] for step in run.steps) for key in run.steps[0].seconds}
            told = ", ".join(f"{key} {found:.1f}" for key, found in parts.items())
            print(f"{name}: {sum(step.passes for step in run.steps):.1f} passes; {told}", flush=True)
        files = [sorted((run.path / "models").glob("*.npz")) for run in runs.values()]
        same = all(one.read_bytes() == other.read_bytes() for one, other in zip(*files, strict=True))
        print(f"models identical to the bit: {'yes' if same else 'NO'}")
        ratio = seconds["two workers"] / seconds["two threads"]
        print(verdict("two workers' time over two threads'", ratio, 1.15, at_least=False), flush=True)
        if options.liblinear:
            library = Library(data)
            took = [library.seconds(step.c, step.dual, TOL) for step in runs["threads"].steps]
            print("LIBLINEAR:", ", ".join(f"{each:.1f}" for each in took), "s")
            ours = sum(
                step.seconds["total"]
                for step, each in zip(runs["threads"].steps, took, strict=True)
                if math.isfinite(each)
            )
            beside = seconds["two threads"] - sum(step.seconds["total"] for step in runs["threads"].steps)
            theirs = sum(each for each in took if math.isfinite(each))
            print(verdict("LIBLINEAR's time over ours where it arrives", theirs / (ours + beside), 3.0))


if __name__ == "__main__":
    main()
