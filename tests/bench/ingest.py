"""Ingest of a 1 GB svmlight file against scikit-learn's reader on the same file, and its peak memory.

python -m tests.bench.ingest [--megabytes 1000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from pipeline.data.registry.synthetic import design, make_rows
from tests.bench.measure import child, verdict

SKLEARN = """
import time
from sklearn.datasets import load_svmlight_file
start = time.perf_counter()
x, y = load_svmlight_file(sys.argv[1])
print(time.perf_counter() - start)
"""

INGEST = """
import time
from pipeline.data.ingest.ingest import IngestSpec, ingest
ingest([sys.argv[2]], sys.argv[3], IngestSpec(overwrite=True))  # a small file first: compile or load kernels
start = time.perf_counter()
ingest([sys.argv[1]], sys.argv[3], IngestSpec(overwrite=True))
print(time.perf_counter() - start)
"""


def write_file(path: Path, megabytes: int) -> None:
    """Write url-like rows as text: 20 MB of different rows, repeated until the size is reached."""
    rows = make_rows(design("url-like", 1.0), 0, 16_000)
    lines = []
    for i in range(rows.n_rows):
        start, end = rows.indptr[i], rows.indptr[i + 1]
        pairs = zip(rows.indices[start:end].tolist(), rows.values[start:end].tolist(), strict=True)
        lines.append(f"{rows.labels[i]:+d} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in pairs) + "\n")
    text = "".join(lines).encode()
    with path.open("wb") as stream:
        for _ in range(-(-megabytes * 10**6 // len(text))):
            stream.write(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        big, small = Path(folder) / "big.svm", Path(folder) / "small.svm"
        write_file(big, options.megabytes)
        write_file(small, 1)
        size = big.stat().st_size / 1e6
        print(f"{size:.0f} MB of svmlight text")
        ratios, peaks = [], []
        for _ in range(options.rounds):
            ours, our_peak = child(INGEST, str(big), str(small), str(Path(folder) / "shards"))
            theirs, their_peak = child(SKLEARN, str(big))
            print(f"  ingest {ours:6.2f} s ({size / ours:4.0f} MB/s), peak {our_peak:5.0f} MB;", end="")
            print(f"  load_svmlight_file {theirs:6.2f} s ({size / theirs:4.0f} MB/s), peak {their_peak:5.0f} MB")
            ratios.append(theirs / ours)
            peaks.append(our_peak)
    print(verdict("ingest against load_svmlight_file, speed ratio", sorted(ratios)[len(ratios) // 2], 1.5))
    print(verdict("ingest, peak memory in MB", max(peaks), 600, at_least=False))


if __name__ == "__main__":
    main()
