"""Memory is a promise: what an ingest needs does not grow with the file."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.formats import Table, write_npz

CODE = """
import resource, sys
from pipeline.data.ingest.ingest import IngestSpec, ingest
small, large, out = sys.argv[1:]
spec = IngestSpec(overwrite=True, shard_bytes=4 << 20, workers=2)
for path in (small, large):
    ingest([path], out, spec)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def write_text(path, repeats):
    rng = np.random.default_rng(0)
    rows = [" ".join(f"{10 * j + 1}:{v:.6g}" for j, v in enumerate(rng.random(40))) for _ in range(2000)]
    path.write_text("".join(f"{'+-'[k % 2]}1 {row}\n" for k, row in enumerate(rows)) * repeats)


def write_arrays(path, repeats):
    rng = np.random.default_rng(0)
    x = rng.random((500, 200)) * (rng.random((500, 200)) < 0.5)
    write_npz(path, Table(np.tile(x, (repeats, 1)), np.tile([-1, 1], 250 * repeats), np.ones(500 * repeats)))


@pytest.mark.parametrize(("write", "suffix"), [(write_text, "svm"), (write_arrays, "npz")])
def test_peak_memory_does_not_grow_with_the_file(tmp_path, write, suffix):
    small, large = tmp_path / f"small.{suffix}", tmp_path / f"large.{suffix}"
    write(small, 15)
    write(large, 90)
    command = [sys.executable, "-c", CODE, str(small), str(large), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, then = map(int, done.stdout.split())
    grown = (large.stat().st_size - small.stat().st_size) / 2**20
    assert then - first < 40, f"peak went from {first} to {then} MiB for {grown:.0f} MiB more"
