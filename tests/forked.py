"""Calls in processes of their own, forked from one that has everything loaded: quick to start, and to be killed."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import resource
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from pipeline.cli import main

LIMIT = 60.0
COMMANDS = ("path", "ingest", "nightly")


def run_command(errors: str, largest_file: int | None, arguments: list[str]) -> None:
    """Run svmsieve with its stderr in a file, and no file larger than so many bytes."""
    with Path(errors).open("w") as stream, Path(os.devnull).open("w") as nothing:
        os.dup2(stream.fileno(), sys.stderr.fileno())
        os.dup2(nothing.fileno(), sys.stdout.fileno())
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    main(arguments)


def serve(connection: Connection, warm_up: tuple) -> None:
    warm_up[0](*warm_up[1:])
    for command in COMMANDS:  # each imports what it needs when it is first run
        importlib.import_module(f"pipeline.cli.{command}")
    gc.freeze()  # a child that collected garbage would copy all that is loaded
    while (call := connection.recv()) is not None:
        pid = os.fork()
        if pid == 0:
            try:
                call[0](*call[1:])
            except SystemExit as left:
                os._exit(left.code)
            finally:
                os._exit(99)
        connection.send(pid)
        connection.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


class Server:
    """Runs one call at a time in a forked process; ``warm_up`` is called once before."""

    def __init__(self, warm_up: Callable[..., object], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, (warm_up, *arguments)))
        self.process.start()

    def start(self, *call: object) -> int:
        """Start the call and return its process id."""
        self.connection.send(call)
        return self.connection.recv()

    def ended(self, seconds: float = 0.0) -> bool:
        """Tell whether the process ends within that time."""
        return self.connection.poll(seconds)

    def left(self) -> int:
        """Wait for the process and return its exit code."""
        assert self.connection.poll(LIMIT)
        return self.connection.recv()

    def close(self) -> None:
        self.connection.send(None)
        self.process.join(LIMIT)
        self.process.close()
        self.connection.close()


def one_line(said: str) -> str:
    """Return what was said, if that is one line of svmsieve."""
    assert said.count("\n") == 1, said
    assert said.startswith("svmsieve")
    return said
