"""What travels between a client and two workers, step by step, and the client's memory: arrays by row with the shards.

Bytes are those of the client's own TCP connections, TLS included, as the kernel counts them. The workers are processes
on this machine; they are sent w as workers of other machines are. Beside that, by call of those that keep the arrays:
bytes to the workers (without w) and back, as they are pickled. ``--here`` keeps the arrays in the client, the peer.

python -m tests.bench.wire [--scale 1] [--grid 300,1000,3000,3300] [--memory 6GB] [--here]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pickle
import socket
import struct
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import psutil

from pipeline.data.dataset import open_shards
from pipeline.data.registry.synthetic import make
from pipeline.engine.kept import Kept
from pipeline.engine.neighbours import Neighbours
from pipeline.events import StepProgress
from pipeline.meter import anonymous
from pipeline.path.fit import fit_path
from pipeline.working import blocks, with_shards
from tests.clusters import real_cluster

BYTES_ACKED = 120  # where Linux has them in struct tcp_info, the bytes received next to them


class Wire:
    """The bytes that this process has sent and received over TCP, closed connections included if they were seen."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, int]] = {}
        self.peak = 0

    def look(self) -> tuple[int, int]:
        for file in Path("/proc/self/fd").iterdir():
            try:
                link = str(file.readlink())
                if link.startswith("socket:"):
                    with socket.socket(fileno=os.dup(int(file.name))) as each:
                        if each.family == socket.AF_INET and each.type == socket.SOCK_STREAM:
                            told = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                            self.seen[link] = struct.unpack_from("QQ", told, BYTES_ACKED)
            except OSError:  # closed just now
                continue
        self.peak = max(self.peak, anonymous(psutil.Process()))
        return sum(sent for sent, _ in self.seen.values()), sum(got for _, got in self.seen.values())

    def watch(self) -> None:
        while True:
            self.look()
            time.sleep(0.1)


def counted() -> dict[str, list[float]]:
    """Count calls of the workers that keep arrays, their bytes both ways and their seconds, by name."""
    found, each = defaultdict[str, list[float]](lambda: [0, 0, 0, 0.0]), Kept.each

    def call(kept: Kept, function, *arguments, shared=(), own=None):
        began = time.perf_counter()
        results = each(kept, function, *arguments, shared=shared, own=own)
        name = function.__name__
        if function is blocks.on_rows:
            name = (arguments[3] if arguments[0] is blocks.of_parts else arguments[0]).__name__
        down = len(pickle.dumps(arguments)) + sum(len(pickle.dumps(mine)) for mine in own or ())
        more = 1, down, len(pickle.dumps(results)), time.perf_counter() - began
        found[name] = [a + b for a, b in zip(found[name], more, strict=True)]
        return results

    Kept.each = call  # type: ignore[method-assign]
    return found


def main() -> None:
    """Run, and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.wire")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--grid", default="300,1000,3000,3300", help="times C_min")
    parser.add_argument("--memory", default="6GB")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--shards", type=Path, help="made already")
    options = parser.parse_args()
    with_shards.LEAST_ROWS = 2**60 if options.here else 0
    Neighbours.meet = lambda self, *_others: setattr(self, "all", False)  # type: ignore[method-assign]
    wire, calls = Wire(), counted()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.shards is None:
            make("kdda-like", folder / "shards", options.scale)
        data = open_shards(options.shards or folder / "shards")
        threading.Thread(target=wire.watch, daemon=True).start()
        with real_cluster(folder / "cluster", workers=2) as cluster:
            last = [wire.look()]

            def listen(event) -> None:
                if isinstance(event, StepProgress) and event.done:
                    now = wire.look()
                    down, up = (b - a for a, b in zip(last[0], now, strict=True))
                    last[0] = now
                    print(
                        f"C = {event.c:.3g}, {event.working_set:,} of {data.n_rows:,} rows solved for, "
                        f"{event.passes:.2f} passes: {down / 1e6:.1f} MB down, {up / 1e6:.1f} MB up",
                        flush=True,
                    )

            grid = [float(c) for c in options.grid.split(",")]
            settings = {"grid": grid, "grid_in_c_min": True, "tol": 1e-3, "memory": options.memory}
            run = fit_path(data, out=folder / "run", scheduler=cluster.address, listen=listen, **settings)
            models = b"".join(path.read_bytes() for path in sorted((run.path / "models").glob("*.npz")))
    print(f"models {hashlib.sha256(models).hexdigest()[:16]}, peak of the client {wire.peak / 1e6:,.0f} MB anonymous")
    for name, (count, down, up, seconds) in sorted(calls.items(), key=lambda item: -item[1][2]):
        print(f"{name:16} {count:4} calls, {down / count:12,.0f} bytes down, {up / count:12,.0f} up, {seconds:6.1f} s")


if __name__ == "__main__":
    main()
