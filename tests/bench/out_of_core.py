"""Data larger than memory: url-like under a budget, its peak measured from outside, every certificate verified.

The default is scale 1 (2.4 million rows, over 2 GB of shards) in 1 GB on a grid of 20 C; ``--times 20`` makes data
of that many times its budget (url-like at scale 0.1 with more rows) instead.

python -m tests.bench.out_of_core [--memory 1GB] [--grid 10x:10000x:20] [--times 20] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from pipeline.data.dataset import open_shards
from pipeline.data.registry.synthetic import make
from pipeline.sizes import bytes_of
from tests.bench.measure import verdict
from tests.watched import SVMSIEVE, watched

BYTES_A_ROW = 955


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--grid", default="10x:10000x:20")
    parser.add_argument("--tol", default="1e-3")
    parser.add_argument("--times", type=float, help="make data of so many times the budget")
    parser.add_argument("--folder", help="where the shards are kept from one time to the next")
    options = parser.parse_args()
    budget = bytes_of(options.memory)
    with tempfile.TemporaryDirectory() as scratch:
        shards = Path(options.folder or scratch) / "url"
        if not (shards / "manifest.json").exists():
            if options.times:
                make("url-like", shards, 0.1, rows=int(1.02 * options.times * budget / BYTES_A_ROW))
            else:
                make("url-like", shards)
        data = open_shards(shards)
        print(
            f"{data.n_rows:,} rows, {data.nnz:,} nonzeros, {data.bytes / 1e9:.2f} GB, {data.bytes / budget:.1f} budgets"
        )
        run = Path(scratch) / "run"
        settings = ("--grid", options.grid, "--tol", options.tol, "--memory", options.memory)
        found = watched(*SVMSIEVE, "path", str(shards), "--out", str(run), *settings)
        print(found.stdout or found.stderr)
        steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
        passes = sum(step["passes"] for step in steps) / len(steps)
        print(f"{len(steps)} steps in {found.seconds:.0f} s, {passes:.2f} passes a C")
        print(verdict("peak anonymous memory over the budget", found.peak / budget, 1.0, at_least=False))
        checked = watched(*SVMSIEVE, "verify", str(run), str(shards), "-q")
        print(checked.stdout or checked.stderr)


if __name__ == "__main__":
    main()
