"""A Dask cluster for tests that kill workers: each is a process of its own that nobody starts again but the test.

(Those of a ``LocalCluster`` come back, at a moment that depends on how busy the machine is.)
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client, LocalCluster

ROOT = Path(__file__).parents[1]
LIMIT = 60.0
WORKER = ["--no-nanny", "--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard"]


def until(condition: Callable[[], object]) -> None:
    """Wait for something that has to happen soon."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Loopback:
    """A scheduler in this process, workers, and a client to look at them."""

    def __init__(self, address: str, watcher: Client, folder: Path) -> None:
        self.address, self.watcher, self.folder = address, watcher, folder
        self.processes: list[subprocess.Popen] = []

    def fill_up(self, workers: int) -> None:
        """Start workers until there are that many."""
        living = [process for process in self.processes if process.poll() is None]
        python_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        for _ in range(workers - len(living)):
            words = ["-m", "distributed.cli.dask_worker", self.address, *WORKER, "--local-directory", str(self.folder)]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            started = subprocess.Popen([sys.executable, *words], env=os.environ | {"PYTHONPATH": python_path}, **quiet)
            self.processes.append(started)
        until(lambda: len(self.watcher.nthreads()) == workers)

    def stop(self) -> None:
        """End all workers."""
        for process in self.processes:
            process.kill()
            process.wait()


@contextmanager
def loopback(folder: Path) -> Iterator[Loopback]:
    """Start a scheduler, with no workers yet."""
    with (
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as scheduler,
        Client(scheduler.scheduler_address, set_as_default=False) as watcher,
    ):
        cluster = Loopback(scheduler.scheduler_address, watcher, folder)
        try:
            yield cluster
        finally:
            cluster.stop()
