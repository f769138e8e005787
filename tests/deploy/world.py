"""What deploy/ says, on this machine: the same words, with folders, hosts and ports that a test owns.

Every container gets two addresses of its own in 127.0.0.0/8. What it binds to 0.0.0.0 goes to ``public``, what it binds
to 127.0.0.1 to ``loopback``: so a test sees what the network would see, and nothing leaves the machine.
"""

from __future__ import annotations

import gzip
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import yaml

from tests.deploy.dockerfile import REPOSITORY, read_dockerfile

DEPLOY = REPOSITORY / "deploy"
PORTS = range(8786, 8790)
FOLDERS = ("data/incoming", "certs", "tmp", "etc/svmsieve", "opt", "var/cache/svmsieve", "var/lib/svmsieve")
SECONDS = 120
FEATURES = 12
CHANCE = random.SystemRandom()  # two runs of the tests at the same time are not to meet
SMALL = {"c_max": 1.0, "epsilon": 0.5, "tol": 1e-2}
_FOLDERS = r"(?:data|certs|tmp|opt/svmsieve|etc/svmsieve|var/(?:cache|lib)/svmsieve)"
_FOLDER = re.compile(rf"(?<![\w.:/-])/(?={_FOLDERS}(?:[/'\"\s]|$))")
_PORT = re.compile(rf"(?<![\w.])({'|'.join(map(str, PORTS))})(?!\w)")


@dataclass
class World:
    """A folder that stands for the file systems of all containers, and what their names and ports are here."""

    root: Path
    network: int = field(default_factory=lambda: CHANCE.randrange(1, 250))
    names: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in FOLDERS:
            (self.root / folder).mkdir(parents=True)
        (self.root / "opt" / "svmsieve").symlink_to(sys.prefix)
        self.shift = next(shift for shift in _shifts() if _all_free(PORTS, shift))

    def path(self, inside: str) -> Path:
        """Return where a path of a container is here."""
        return self.root / inside.lstrip("/")

    def public(self, name: str) -> str:
        """Return the address that others reach a container at."""
        return f"127.{self.network}.{self._number(name)}.2"

    def loopback(self, name: str) -> str:
        """Return what 127.0.0.1 is inside a container."""
        return f"127.{self.network}.{self._number(name)}.1"

    def port(self, number: int) -> int:
        """Return what a port is here."""
        return number + self.shift

    def said(self, text: str, name: str) -> str:
        """Return what a container's file says in the words of this machine."""
        text = _FOLDER.sub(f"{self.root}/", _PORT.sub(lambda found: str(self.port(int(found[1]))), text))
        text = text.replace("0.0.0.0", self.public(name)).replace("127.0.0.1", self.loopback(name))  # noqa: S104
        return re.sub(r"tls://([a-z][\w-]*)", lambda found: f"tls://{self.public(found[1])}", text)

    def command(self, words: list[str], name: str) -> list[str]:
        """Return a command of a container; programs are those beside this Python."""
        program, *rest = (self.said(word, name) for word in words)
        found = shutil.which(program, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert found, f"{program}: no such program"
        return [found, *rest]

    def image_environment(self) -> dict[str, str]:
        """Return what the image sets, but for the folder of compiled kernels: all tests share one, to save minutes."""
        image = read_dockerfile()[-1].environment({})
        return {k: self.said(v, "image") for k, v in image.items() if k not in ("PATH", "NUMBA_CACHE_DIR")}

    def mount_job(self, text: str, inside: str) -> None:
        """Put a job.yaml where a container sees it, with this machine's folders and settings for a few small rows."""
        job = yaml.safe_load(self.said(text, "job"))
        job["reading"]["features"] = FEATURES
        job["train"] = {"memory": job["train"]["memory"]} | SMALL
        self.path(inside).write_text(yaml.safe_dump(job))

    def _number(self, name: str) -> int:
        return self.names.setdefault(name.removeprefix("svmsieve-"), len(self.names) + 1)


def write_clicks(path: Path, rows: int = 200, seed: int = 0) -> None:
    """Write rows as svmlight text; the label is a noisy linear function of them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, FEATURES))
    y = x @ np.linspace(-1, 1, FEATURES) + 0.2 * rng.standard_normal(rows) > 0
    texts = (" ".join(f"{j + 1}:{value:.4f}" for j, value in enumerate(row)) for row in x)
    lines = (f"{int(label)} {text}" for label, text in zip(y, texts, strict=True))
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


@contextmanager
def running(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in a session of its own; at the end it and its children are gone."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        family = tree(process.pid)
        process.terminate()
        for member in psutil.wait_procs(family, timeout=15)[1]:
            member.kill()
        process.wait(30)


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and all below it."""
    try:
        return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def listening(pid: int) -> set[tuple[str, int]]:
    """Return the addresses on which a process, or one below it, listens."""
    pids = {process.pid for process in tree(pid)}
    found = psutil.net_connections(kind="tcp")
    return {tuple(c.laddr) for c in found if c.pid in pids and c.status == psutil.CONN_LISTEN}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited {SECONDS} s for {what}"
        time.sleep(0.2)


def _shifts() -> Iterator[int]:
    """Yield shifts that keep ports below those the kernel gives away."""
    while True:
        yield CHANCE.randrange(2000, 20000, len(PORTS))


def _all_free(ports: range, shift: int) -> bool:
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port + shift)) == 0:
                return False
    return True
