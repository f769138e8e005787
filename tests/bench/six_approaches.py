"""The paper's six approaches on this path: Full, Shrink, BT1, Shrink+BT1, IT, Shrink+IT (tables 3 and 4 there).

Each is a setting of the same code: rule (none, bt1, it) x dcd's shrinking, solver dcd, every undecided row solved for
(``predict=False``). One C: C_ref = 500 C_min, C = C_ref/0.9. Along the path: the eps-path to ``--c-max``. LIBLINEAR,
whose shrinking cannot be turned off, stands beside them.

python -m tests.bench.six_approaches --data bcd dna_scale mushrooms [--epsilon 0.01] [--c-max 10]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from liblinear.liblinearutil import parameter, problem, train

import pipeline
from pipeline.data.dataset import Dataset
from tests.bench.references import load_rows

APPROACHES = {
    "Full": ("none", False),
    "Shrink": ("none", True),
    "BT1": ("bt1", False),
    "Shrink+BT1": ("bt1", True),
    "IT": ("it", False),
    "Shrink+IT": ("it", True),
}


def shards_of(name: str, folder: Path) -> Dataset:
    """Write a development data set, scaled as the solvers' benchmark does, and open it."""
    z = sp.csr_array(load_rows(name).z)
    labels = np.where(
        np.arange(z.shape[0]) % 2 == 0, 1, -1
    )  # z_i = y_i x_i whatever the labels: rows are turned around
    x = sp.csr_array(sp.diags_array(labels.astype(float)) @ z)
    source = folder / f"{name}.npz"
    np.savez(source, data=x.data, indices=x.indices, indptr=x.indptr, shape=x.shape, y=labels)
    return pipeline.open_dataset(source)


def row(name: str, run, steps, seconds: float) -> str:
    rule = sum(step.seconds["screen"] for step in steps)
    decided = np.mean([1 - step.survivors / step.n_rows for step in steps])
    return f"  {name:<12}{rule:10.3f}{decided:10.3f}{seconds:10.3f}"


def one_c(data: Dataset, options: argparse.Namespace, folder: Path) -> None:
    print("  one C          rule s      rate   total s", flush=True)
    for name, (rule, shrink) in APPROACHES.items():
        settings = {"rule": rule, "solver": "dcd", "shrink": shrink, "predict": False, "tol": options.tol}
        run = pipeline.fit_path(
            data, grid=(500.0, 500.0 / 0.9), grid_in_c_min=True, memory="8GB", scheduler="inline", **settings
        )
        last = run.steps[-1:]
        print(row(name, run, last, last[0].seconds["total"]), flush=True)
    library(data, [run.steps[-1].c])


def along(data: Dataset, options: argparse.Namespace, folder: Path) -> None:
    print("  path           rule s      rate   total s", flush=True)
    for name, (rule, shrink) in APPROACHES.items():
        settings = {"rule": rule, "solver": "dcd", "shrink": shrink, "predict": False, "tol": options.tol}
        begin = time.perf_counter()
        run = pipeline.fit_path(
            data, c_max=options.c_max, epsilon=options.epsilon, memory="8GB", scheduler="inline", **settings
        )
        print(row(name, run, run.steps[1:], time.perf_counter() - begin), f"{len(run.steps)} steps", flush=True)
    library(data, [step.c for step in run.steps[1:]])


def library(data: Dataset, cs: list[float]) -> None:
    parts = [shard.load() for shard in data.shards]
    x = sp.csr_matrix(sp.vstack([sp.csr_matrix(part.csr(), dtype=np.float64) for part in parts], format="csr"))
    y = np.concatenate([part.labels for part in parts]).astype(np.float64)
    known = problem(y, x)
    begin = time.perf_counter()
    for c in cs:
        train(known, parameter(f"-s 3 -q -c {c!r} -e 0.01"))
    print(
        f"  {'LIBLINEAR':<12}{'':10}{'':10}{time.perf_counter() - begin:10.3f} -e 0.01, whatever gap that is",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["bcd", "dna_scale", "mushrooms"])
    parser.add_argument("--epsilon", type=float, default=1e-2)
    parser.add_argument("--c-max", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=1e-4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.data:
            data = shards_of(name, Path(folder))
            print(f"{name}: {data.n_rows:,} rows, {data.n_features:,} features", flush=True)
            one_c(data, options, Path(folder))
            along(data, options, Path(folder))


if __name__ == "__main__":
    main()
