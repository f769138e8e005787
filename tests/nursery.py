"""Dask schedulers and workers forked from a process that has everything loaded: a start costs a tenth of a second.

A fresh interpreter takes two seconds of a core to import what a worker needs, and tests start about eighty. The process
here is single-threaded, so that a fork of it is sound; whoever dies with it is ended by it.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

LIMIT = 120.0
LOADED = (
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_worker",
    "pipeline.path.fit",
    "pipeline.engine.cluster",
)
LOADED += ("pipeline.verify.verify", "tests.trained")  # with the latter, what the modules of tests import


class Order(NamedTuple):
    """A process to start: a module whose ``main`` reads the words, and what is its own."""

    module: str
    words: list[str]
    environment: Mapping[str, str]
    cwd: Path
    log: Path


def _become(order: Order) -> None:
    """Be the process that was ordered, to its end."""
    code = 1
    try:
        os.setsid()
        with Path(os.devnull).open() as nothing, order.log.open("wb") as log:
            for theirs, ours in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(theirs.fileno(), ours)
        os.environ.clear()
        os.environ.update(order.environment)
        os.chdir(order.cwd)
        sys.argv = [order.module, *order.words]
        importlib.import_module("dask").config.refresh()
        sys.modules[order.module].main(order.words)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(connection: Connection) -> None:
    """Start what is ordered and say how what was started has ended, until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in LOADED:
        importlib.import_module(module)
    running: set[int] = set()
    with suppress(EOFError):
        while (request := connection.recv()) is not None:
            if isinstance(request, Order):
                pid = os.fork()
                if pid == 0:
                    connection.close()
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    _become(request)
                running.add(pid)
                connection.send(pid)
            else:
                found, status = os.waitpid(request, os.WNOHANG)
                running.discard(found)
                connection.send(os.waitstatus_to_exitcode(status) if found else None)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


class Child:
    """A process of the nursery, as ``subprocess.Popen`` shows one."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.nursery, self.pid = nursery, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.nursery.ask(self.pid)
        return self.returncode

    def wait(self) -> int:
        end = time.monotonic() + LIMIT
        while (code := self.poll()) is None:
            assert time.monotonic() < end, f"process {self.pid} does not end"
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:  # as long as it was not waited for, the number is no other's
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The loaded process; it starts with the first order."""

    def __init__(self) -> None:
        self.lock, self.process = threading.Lock(), None

    def start(self, order: Order) -> Child:
        return Child(self, self.ask(order))

    def ask(self, request: Order | int) -> int | None:
        with self.lock:
            if self.process is None:
                context = multiprocessing.get_context("spawn")
                self.connection, theirs = context.Pipe()
                self.process = context.Process(target=_serve, args=(theirs,))
                self.process.start()
                theirs.close()
            self.connection.send(request)
            assert self.connection.poll(LIMIT), "the nursery does not answer"
            return self.connection.recv()

    def close(self) -> None:
        if self.process is not None:
            self.connection.send(None)
            self.process.join(LIMIT)
            self.process.close()
            self.connection.close()
