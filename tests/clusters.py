"""Real Dask clusters for tests: a scheduler and workers in processes of their own on the loopback interface, with TLS.

Everything is ended at the end, whatever happens.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client

from pipeline.engine.engine import Engine
from pipeline.engine.tls import client_security, credentials, make_credentials
from pipeline.events import Event, StepProgress
from tests.nursery import Child, Nursery, Order

ROOT = Path(__file__).parents[1]
LIMIT = 120.0
Process = subprocess.Popen | Child
QUIET = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
# Dask looks at its threads and its clock fifty times a second: 2.5 % of a core for each idle worker, 0.7 % like this.
AT_REST = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False", "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms"}


def until(condition: Callable[[], object], what: str = "it did not happen") -> None:
    """Wait for something that has to happen soon."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


class RealCluster:
    """A scheduler and its workers. Killed workers stay dead: they have no nanny.

    With a ``nursery`` they are forked from a process that has everything loaded, except those that are to have an
    interpreter or an environment of their own.
    """

    def __init__(self, folder: Path, allowed_failures: int = 3, nursery: Nursery | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.allowed_failures, self.nursery = folder, allowed_failures, nursery
        make_credentials(folder)
        self.processes: list[Process] = []
        self.workers: list[Process] = []
        self.count = 0

    def start_scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        words = ["--host", "tls://127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
        more = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(self.allowed_failures)}
        self.scheduler = self._start("scheduler", "scheduler", words, alone=False, environment=more)
        until(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler does not start")
        self.address = json.loads(file.read_text())["address"]

    def add_worker(self, wait: bool = True, **how: Any) -> Process:
        """Start a worker: ``python`` are options of its interpreter, the rest its own; a ``nanny`` starts it again."""
        name = f"worker-{self.count}"
        nanny = "--nanny" if how.pop("nanny", False) else "--no-nanny"
        words = [self.address, "--host", "127.0.0.1", "--nthreads", "1", nanny, "--name", name]
        words += ["--local-directory", str(self.folder / "work"), "--death-timeout", "60", *how.pop("options", ())]
        self.count += 1
        worker = self._start(name, "worker", words, alone=nanny == "--nanny", **how)
        self.workers.append(worker)
        if wait:
            self.await_worker(self.count - 1)
        return worker

    def add_workers(self, number: int) -> None:
        """Start workers at the same time, and wait for all."""
        first = self.count
        for _ in range(number):
            self.add_worker(wait=False)
        for k in range(first, first + number):
            self.await_worker(k)

    def have_workers(self, number: int) -> None:
        """Start or end workers until there are that many, whoever killed or added some."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        for worker in self.workers[number:]:
            self.kill(worker)
        self.add_workers(number - len(self.workers))

    def show_workers(self, number: int, client: Client) -> None:
        """Have that many workers, and wait until the scheduler has them: one that is being killed may seem alive."""

        def is_so() -> bool:
            self.have_workers(number)
            return len(client.nthreads()) == number

        until(is_so)

    def await_worker(self, number: int) -> None:
        log = self.folder / f"worker-{number}.log"
        until(lambda: log.exists() and b"Registered to" in log.read_bytes(), f"worker {number} does not start")

    def kill(self, worker: Process) -> None:
        """End a worker at once, as the system does when memory is short."""
        worker.kill()
        worker.wait()
        self.workers.remove(worker)

    def client(self) -> Client:
        return Client(self.address, security=client_security(credentials(self.folder, "client")), set_as_default=False)

    def environment(self) -> dict[str, str]:
        """Return what a client in another process needs in its environment."""
        return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": path for name, path in self._tls().items()}

    def configuration(self) -> dict[str, str]:
        """Return the same for Dask in this process."""
        names = {name: name.lower().replace("__", ".").replace("_", "-") for name in self._tls()}
        return {f"distributed.comm.tls.{names[name]}": path for name, path in self._tls().items()}

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def _tls(self) -> dict[str, str]:
        files = credentials(self.folder, "client")
        return {"CA_FILE": files.ca, "CLIENT__CERT": files.cert, "CLIENT__KEY": files.key}

    def _start(
        self,
        name: str,
        kind: str,
        words: list[str],
        *,
        alone: bool,
        python: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> Process:
        files = credentials(self.folder, kind)
        module, words = f"distributed.cli.dask_{kind}", [*words, *QUIET]
        words += ["--tls-ca-file", files.ca, "--tls-cert", files.cert, "--tls-key", files.key]
        given = os.environ | AT_REST | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s"}
        given |= {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
        given |= environment or {}
        alone = alone or bool(python) or "PYTHONPATH" in (environment or {})
        process: Process
        if self.nursery is not None and not alone:
            process = self.nursery.start(Order(module, words, given, cwd, self.folder / f"{name}.log"))
        else:
            with (self.folder / f"{name}.log").open("wb") as log:
                streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
                command = [sys.executable, *python, "-m", module, *words]
                process = subprocess.Popen(command, env=given, cwd=cwd, **streams)
        self.processes.append(process)
        return process


class Deaths:
    """Kills a worker of a cluster with a task on it, the n-th that ``engine`` gives, and another after five steps."""

    def __init__(self, cluster: RealCluster, engine: Engine, patch: pytest.MonkeyPatch, task: int) -> None:
        self.cluster, self.task, self.tasks, self.steps = cluster, task, 0, 0
        self.submit = engine.backend.client.submit
        patch.setattr(engine.backend.client, "submit", self._submit)

    def _submit(self, *arguments: Any, **options: Any) -> Any:
        self.tasks += 1
        future = self.submit(*arguments, **options)
        if self.tasks == self.task:
            self.cluster.kill(self.cluster.workers[0])
        return future

    def listen(self, event: Event) -> None:
        """Hear of a run."""
        if isinstance(event, StepProgress) and event.done:
            self.steps += 1
            if self.steps == 5:
                self.cluster.kill(self.cluster.workers[0])


@contextmanager
def started(folder: Path, workers: int, **options: Any) -> Iterator[RealCluster]:
    """Run a cluster."""
    cluster = RealCluster(folder, **options)
    try:
        cluster.start_scheduler()
        cluster.add_workers(workers)
        yield cluster
    finally:
        cluster.stop()
        collect_connections()


@contextmanager
def known(cluster: RealCluster) -> Iterator[RealCluster]:
    """Let Dask in this process know the cluster's credentials."""
    try:
        with dask.config.set(cluster.configuration()):
            yield cluster
    finally:
        collect_connections()


@contextmanager
def real_cluster(folder: Path, workers: int, **options: Any) -> Iterator[RealCluster]:
    """Run a cluster; Dask in this process knows its credentials meanwhile."""
    with started(folder, workers, **options) as cluster, known(cluster):
        yield cluster


def collect_connections() -> None:
    """Collect connections that broke, which Dask leaves to the garbage collector: no later test answers for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
