"""``svmsieve`` for shells, forked from a process that has everything loaded: a start is a twentieth of a second.

A fresh interpreter takes a second of a core to import what a command needs, and README and the examples run a score of
them. What starting costs, and that it works, is tested where it is: ``test_startup.py``, ``test_cli.py``, ``deploy/``.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.cli import main

LIMIT = 60.0
LOADED = ("path.fit", "path.tune", "verify.verify", "use.predict", "use.screen", "report.run_page", "nightly.night")
TABLES = ("pandas", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet")  # where there is Pandas, Arrow looks for it
MOST = 100_000  # bytes of a command and its environment
COMMAND = """#!{python} -IS
import os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({place!r})
    environment = [name + b"=" + value for name, value in os.environb.items()]
    words = [os.fsencode(word) for word in (os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:])]
    socket.send_fds(server, [b"\\0".join([*words, *environment])], [0, 1, 2])
    code = server.recv(16)
sys.exit(int(code or 99))
"""


def _become(message: bytes, streams: list[int]) -> None:
    """Be the command, to its end."""
    try:
        where, count, *words = message.decode(errors="surrogateescape").split("\0")
        for ours, theirs in enumerate(streams):
            os.dup2(theirs, ours)
        os.environ.clear()
        os.environ.update(word.split("=", 1) for word in words[int(count) :])
        os.chdir(where)
        sys.argv = ["svmsieve", *words[: int(count)]]
        main()
    except SystemExit as left:
        sys.stdout.flush()
        os._exit(left.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(99)


def _serve(server: socket.socket) -> None:
    """Run one command after the other."""
    for module in (*TABLES, *(f"pipeline.{name}" for name in LOADED)):
        importlib.import_module(module)
    gc.freeze()  # a child that collected garbage would copy all that is loaded
    while True:
        connection, _ = server.accept()
        with connection:
            message, streams, *_ = socket.recv_fds(connection, MOST, 3)
            pid = os.fork()
            if pid == 0:
                _become(message, streams)
            for each in streams:
                os.close(each)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            connection.send(str(code if code >= 0 else 128 - code).encode())


@contextmanager
def loaded_command(command: Path) -> Iterator[None]:
    """Have an executable file ``command`` that is ``svmsieve``."""
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,  # a socket's path must be short
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server,
    ):
        place = f"{folder}/svmsieve"
        server.bind(place)
        server.listen()
        command.write_text(COMMAND.format(python=sys.executable, place=place))
        command.chmod(0o755)
        process = context.Process(target=_serve, args=(server,))
        process.start()
        try:
            yield
        finally:
            process.kill()
            process.join(LIMIT)
            process.close()
