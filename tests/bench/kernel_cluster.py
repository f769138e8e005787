"""An RBF grid on 300,000 rows in a cluster of two one-thread workers: certificates, kernel values, their cost, memory.

``svmsieve path`` runs as a user runs it, a process of its own, on shards of rows drawn at random, at gamma scale. The
workers are processes on this machine with TLS between them, so client and workers share its cores. What a kernel value
costs is said twice: as wall-clock seconds times workers, which counts all that is done meanwhile, and as the workers'
own CPU seconds. Memory is what the system cannot take back (anonymous), looked at from outside, the client's and
each worker's against the budget.

census_income_kdd has 299,285 rows, so that is what 300,000 of it are.

python -m tests.bench.kernel_cluster [--data DIR] [--set nycflights13] [--rows 300000] [--memory 4GB] [--grid 0.01:1:5]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

import pipeline
from pipeline.data.dataset import open_shards
from pipeline.meter import anonymous
from pipeline.sizes import bytes_of
from tests.bench.kernel_sets import warm_up, write_rows
from tests.bench.measure import verdict
from tests.bench.references import load_set
from tests.clusters import RealCluster, real_cluster
from tests.conftest import DEVELOPMENT_DATA
from tests.watched import SVMSIEVE

WORKERS = 2
SHARDS = 20  # of the default size there is one, and one worker would have nothing to do
SETS = ("nycflights13", "census_income_kdd")
SECONDS_BETWEEN_LOOKS = 0.05


@dataclass
class Watch:
    """The peaks of some processes' anonymous memory, by name, looked at from time to time."""

    processes: dict[str, psutil.Process]
    peaks: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def looking(self):
        done = threading.Event()

        def look() -> None:
            while not done.wait(SECONDS_BETWEEN_LOOKS):
                for name, process in list(self.processes.items()):
                    self.peaks[name] = max(self.peaks.get(name, 0), anonymous(process))

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def draw(name: str, data: Path, rows: int, target: Path) -> Path:
    """Write some rows of a set, drawn at random in the order of the source, as shards."""
    x, y = load_set(name, data)
    chosen = np.sort(np.random.default_rng(0).choice(y.size, min(rows, y.size), replace=False))
    return write_rows(target, x[chosen], y[chosen], rows_per_shard=-(-chosen.size // SHARDS))


def command(shards: Path, out: Path, options: argparse.Namespace, cluster: RealCluster, watch: Watch) -> float:
    """Run the whole command; return its seconds."""
    line = [*SVMSIEVE, "path", str(shards), "--out", str(out), "--quiet", "--kernel", "rbf", "--gamma", "scale"]
    line += ["--grid", options.grid, "--tol", repr(options.tol), "--memory", options.memory]
    begin = time.perf_counter()
    with subprocess.Popen(
        [*line, "--scheduler", cluster.address], stdout=subprocess.DEVNULL, env=os.environ | cluster.environment()
    ) as client:
        watch.processes["client"] = psutil.Process(client.pid)
        with watch.looking():
            code = client.wait()
    if code:
        raise SystemExit(f"svmsieve path ended with {code}")
    return time.perf_counter() - begin


def cpu_of(cluster: RealCluster) -> float:
    """Return the CPU seconds that the workers have used so far."""
    times = [psutil.Process(worker.pid).cpu_times() for worker in cluster.workers]
    return sum(each.user + each.system for each in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DEVELOPMENT_DATA, metavar="DIR")
    parser.add_argument("--set", choices=SETS, default=SETS[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--grid", default="0.01:1:5")
    parser.add_argument("--tol", type=float, default=1e-4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernel-cluster-") as scratch:
        folder = Path(scratch)
        warm_up(folder)
        shards = draw(options.set, options.data, options.rows, folder / "shards")
        data = open_shards(shards)
        print(
            f"{options.set}: {data.n_rows:,} rows, {data.n_features:,} features, {data.nnz:,} nonzeros, "
            f"{len(data.shards)} shards",
            flush=True,
        )
        with real_cluster(folder / "cluster", WORKERS) as cluster:
            workers = {f"worker {k}": psutil.Process(worker.pid) for k, worker in enumerate(cluster.workers)}
            watch, used = Watch(workers), cpu_of(cluster)
            seconds = command(shards, folder / "run", options, cluster, watch)
            used = cpu_of(cluster) - used
        report(pipeline.open_run(folder / "run"), seconds, used, watch.peaks, bytes_of(options.memory))


def report(run: pipeline.Run, seconds: float, used: float, peaks: dict[str, int], budget: int) -> None:
    n, values = run.steps[0].n_rows, sum(step.kernel_values or 0 for step in run.steps)
    print(f"gamma scale = {run.spec.gamma:.4g}")
    print(
        f"{'C':>10}{'gap':>10}{'seconds':>10}{'rounds':>8}{'values/n^2':>12}{'solved for':>12}{'free':>10}{'at C':>10}"
    )
    for step in run.steps:
        print(
            f"{step.c:>10.4g}{step.relative_gap:>10.1e}{step.seconds['total']:>10.1f}{step.rounds:>8}"
            f"{(step.kernel_values or 0) / n**2:>12.3f}{step.working_set:>12,}{step.n_free:>10,}{step.n_upper:>10,}"
        )
    print(f"{len(run.steps)} certified C in {seconds:.1f} s, {values:,} kernel values, {values / n**2:.2f} n^2")
    print(
        f"a kernel value: {1e9 * WORKERS * seconds / values:.1f} ns (wall x {WORKERS} workers), "
        f"{1e9 * used / values:.1f} ns of the workers' CPU ({used:.1f} s)"
    )
    worst = max(step.relative_gap for step in run.steps)
    print(f"worst gap {worst:.1e} (target <= {run.spec.tol:g}) {'met' if worst <= run.spec.tol else 'MISSED'}")
    print("peak memory: " + ", ".join(f"{name} {peak / 1e6:,.0f} MB" for name, peak in sorted(peaks.items())))
    for name, peak in sorted(peaks.items()):
        print(verdict(f"{name}'s peak over the budget of {budget / 1e9:g} GB", peak / budget, 1.0, at_least=False))


if __name__ == "__main__":
    main()
