"""The margins pass over shards in the page cache against SciPy's in-memory CSR product on one thread.

python -m tests.bench.passes [--scale 0.1] [--rounds 15] [--shards DIR]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.registry.synthetic import make
from pipeline.engine.engine import Engine
from pipeline.passes.products import margins
from pipeline.passes.sums import cost_sum
from tests.bench.measure import take_turns, verdict


def compare(data: Dataset, rounds: int) -> None:
    w = np.random.default_rng(0).standard_normal(data.n_features)
    parts = [shard.load() for shard in data.shards]
    x = sp.vstack([sp.csr_matrix(rows.csr()) for rows in parts], format="csr", dtype=np.float64)
    labels = np.concatenate([rows.labels for rows in parts])
    print(f"{data.n_rows:,} rows, {data.n_features:,} features, {data.nnz:,} nonzeros, {len(data.shards)} shards")
    with Engine("inline") as inline, Engine("threads", workers=2) as threads:
        np.testing.assert_allclose(margins(threads, data, w), labels * (x @ w), rtol=1e-9, atol=1e-12)
        rivals = {
            "scipy, one thread": lambda: x @ w,
            "margins, one thread": lambda: margins(inline, data, w),
            "margins, two threads": lambda: margins(threads, data, w),
            "cost_sum, two threads": lambda: cost_sum(threads, data),
        }
        seconds = take_turns(rivals, rounds)
    for name, found in seconds.items():
        print(f"  {name:<22} {found * 1e3:7.1f} ms  {data.nnz / found / 1e6:6.0f} M nonzeros/s")
    base = seconds["scipy, one thread"]
    print(verdict("margins on one thread against SciPy", base / seconds["margins, one thread"], 0.8))
    print(verdict("margins on two threads against SciPy on one", base / seconds["margins, two threads"], 1.6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shards", help="use this shard directory instead of url-like")
    options = parser.parse_args()
    if options.shards:
        compare(open_shards(options.shards), options.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        make("url-like", Path(folder) / "url", options.scale)
        compare(open_shards(Path(folder) / "url"), options.rounds)


if __name__ == "__main__":
    main()
