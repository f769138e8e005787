"""Data that do not fit into the page cache: an eps-path as a whole command, certificates that read less against others.

Each command runs in a memory control group that is smaller than the data (version 1 of control groups; needs root),
with the page cache dropped before it. Three of them, on the same shards: ``--every-row``; the default without a copy of
the rows that will be read again (``passes/hot``); the default. Bytes are those that the disk was asked for.

The rows are drawn from census_income_kdd, each with three per cent of its entries from another row; or those of
url-like, whose full passes follow one another.

python -m tests.bench.cold [--data census|url-like] [--rows 3000000] [--limit 1GB] [--memory 500MB] [--c-max 1e-5]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import pipeline
from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.reading.labels import LabelMap
from pipeline.data.registry.synthetic import make
from pipeline.data.shards.directory import new_directory
from pipeline.data.shards.manifest import Manifest
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.shard import shard_name, write_shard
from pipeline.passes.hot import VARIABLE
from pipeline.sizes import bytes_of
from tests.bench.measure import verdict
from tests.bench.path import load_compiled
from tests.conftest import DEVELOPMENT_DATA
from tests.watched import SVMSIEVE

GROUPS = Path("/sys/fs/cgroup/memory")
ROWS_A_SHARD = 150_000  # 67 MB, as ingest makes them
CHANGED = 0.03  # of a row's entries
RUNS = {"every row": (("--every-row",), "0"), "nothing copied": ((), "0"), "default": ((), "")}


def make_census(folder: Path, rows: int) -> Dataset:
    """Write so many rows, each of one row of census_income_kdd with some entries of another."""
    with np.load(DEVELOPMENT_DATA / "census_income_kdd.npz") as file:
        x, y = sp.csr_array((file["data"], file["indices"], file["indptr"]), tuple(file["shape"])), file["y"]
    x.data = np.abs(x.data)
    rng, shards = np.random.default_rng(0), []
    with new_directory(folder) as directory:
        for first in range(0, rows, ROWS_A_SHARD):
            one, other = rng.integers(x.shape[0], size=(2, min(ROWS_A_SHARD, rows - first)))
            mine, others = x[one], x[other]
            mine.data *= rng.random(mine.nnz) >= CHANGED
            others.data *= rng.random(others.nnz) < CHANGED
            made = mine.maximum(others)
            made.eliminate_zeros()
            made.sort_indices()
            norms, labels = np.sqrt(made.multiply(made).sum(axis=1)), np.where(y[one] > 0, 1, -1).astype(np.int8)
            parts = made.indptr.astype(np.int32), made.indices.astype(np.int32), made.data
            block = Rows(*parts, labels, np.ones(labels.size), np.asarray(norms), made.shape[1])
            shards.append(write_shard(directory.path, shard_name(len(shards)), block))
        directory.finish(Manifest(x.shape[1], LabelMap(("-1",), ("1",)), tuple(shards)))
    return open_shards(folder)


@contextmanager
def control_group(limit: int) -> Iterator[Path]:
    """Make a group of processes whose memory, page cache included, is limited."""
    group = GROUPS / f"svmsieve-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def cold(data: Dataset, out: Path, limit: int, settings: list[str], hot: str) -> tuple[float, float, float, float]:
    """Run the whole command in a group of its own; return its seconds, those of CPU, and the GB read and written."""
    line = [*SVMSIEVE, "path", data.path, "--out", str(out), "--quiet", *settings]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if hot:
        env[VARIABLE] = hot
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    with control_group(limit) as group:
        before, used, begin = disk(), cpu(), time.perf_counter()
        joined = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), *line]
        subprocess.run(joined, check=True, stdout=subprocess.DEVNULL, env=env)
        seconds, after = time.perf_counter() - begin, disk()
    return seconds, cpu() - used, after[0] - before[0], after[1] - before[1]


def cpu() -> float:
    """Return the seconds of CPU of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def disk() -> tuple[float, float]:
    """Return the GB that this machine's disks have read and written."""
    lines = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    whole = [line for line in lines if (Path("/sys/block") / line[2]).exists() and not line[2].startswith("loop")]
    return sum(512e-9 * int(line[5]) for line in whole), sum(512e-9 * int(line[9]) for line in whole)


def main() -> None:
    """Measure all three, and compare what they wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="census", choices=["census", "url-like"])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--limit", default="1GB")
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--c-max", default="1e-5")
    parser.add_argument("--runs", nargs="+", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--folder", help="where the shards are kept from one time to the next")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, shards = Path(scratch), Path(options.folder or scratch) / options.data
        load_compiled(folder / "small")
        if (shards / "manifest.json").exists():
            data = open_shards(shards)
        elif options.data == "census":
            data = make_census(shards, options.rows)
        else:
            make("url-like", shards, 0.1, rows=options.rows)
            data = open_shards(shards)
        print(f"{data.n_rows:,} rows, {data.nnz:,} nonzeros, {data.bytes / 1e9:.2f} GB in a group of {options.limit}")
        found = {}
        for name in options.runs:
            more, hot = RUNS[name]
            settings = ["--memory", options.memory, "--c-max", options.c_max, *more]
            out = folder / name.replace(" ", "-")
            seconds, busy, read, written = cold(data, out, bytes_of(options.limit), settings, hot)
            steps = pipeline.open_run(out).steps
            found[name] = seconds
            reads = np.mean([step.passes for step in steps[1:]])
            print(
                f"{name}: {len(steps)} C in {seconds:.1f} s ({busy:.1f} of CPU), {reads:.2f} reads a C;"
                f" {read:.1f} GB read, {written:.1f} GB written"
            )
            spent = {part: sum(s.seconds.get(part, 0.0) for s in steps) for part in steps[-1].seconds}
            print("  " + ", ".join(f"{part} {took:.1f} s" for part, took in spent.items()), flush=True)
        if {"every row", "default"} <= found.keys():
            print(verdict("speed against --every-row", found["every row"] / found["default"], 1.5, at_least=True))


if __name__ == "__main__":
    main()
