"""A Dask cluster on this machine for trying things out: real processes on the loopback interface, with TLS.

    DIR/cluster.json    address, processes, a client's credentials
    DIR/*.pem, *.log    the credentials of all; what the processes say

Its address alone is enough to use it: a note in the user's state folder says in which DIR the credentials are.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Client

from pipeline.dataclass import dataclass
from pipeline.engine.member import Member, end, start_process
from pipeline.engine.tls import FILES, Credentials, client_security, credentials, make_credentials
from pipeline.errors import EngineError
from pipeline.files import locked, one_line, write_json, write_whole

HOST = "127.0.0.1"
STATE, WORK, SCHEDULER = "cluster.json", "work", "scheduler.json"
OLDER = ("cert.pem", "key.pem")  # of clusters that were started when one certificate served all
SECONDS_TO_START = 60.0  # processes import all of Dask and Numba first: a few, on a busy machine many
NO_PAGES = {f"DASK_DISTRIBUTED__{who}__HTTP__ROUTES": "[]" for who in ("SCHEDULER", "WORKER")}


@dataclass(frozen=True)
class LocalCluster:
    """What is known of a cluster that was started here: the scheduler comes first among its members."""

    folder: Path
    client: Credentials
    members: tuple[Member, ...] = ()
    address: str = ""

    @property
    def alive(self) -> int:
        """How many of its processes run."""
        return sum(each.alive() for each in self.members)

    def write(self) -> None:
        """Note what is known."""
        known = {"folder": str(self.folder), "certificates": asdict(self.client)}
        write_json(self.folder / STATE, known | {"members": list(map(asdict, self.members)), "address": self.address})

    def remove(self) -> None:
        """End the processes and remove what they left."""
        end(self.members)
        if self.address:
            _note(self.address).unlink(missing_ok=True)
        shutil.rmtree(self.folder / WORK, ignore_errors=True)
        for path in _own_files(self.folder):
            path.unlink(missing_ok=True)


def default_folder() -> Path:
    """Return where the cluster's files go unless told otherwise."""
    return _state_folder() / "cluster"


def find_cluster(folder: Path) -> LocalCluster | None:
    """Return the cluster whose files are in a folder."""
    try:
        known = json.loads((folder / STATE).read_text())
        _check_owner(folder)
        members = tuple(Member(int(each["pid"]), str(each["began"])) for each in known["members"])
        return LocalCluster(folder, Credentials(**known["certificates"]), members, str(known["address"]))
    except EngineError:
        raise
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise EngineError(f"{folder / STATE}: cannot be read ({error}); remove the folder") from error


def credentials_of(address: str) -> Credentials | None:
    """Return a client's credentials for the cluster at an address, if it was started here."""
    try:
        found = find_cluster(Path(_note(address).read_text()))
    except FileNotFoundError:
        return None
    return found.client if found and _place(found.address) == _place(address) else None


def start_cluster(folder: Path, workers: int, memory: int, threads: int = 1) -> LocalCluster:
    """Start a scheduler and workers, and return when all have met; what fails to start leaves nothing behind."""
    with _own(folder):
        old = find_cluster(folder)
        if old and old.alive:
            where = old.address or "an unfinished start"
            raise EngineError(
                f"a cluster is up already ({where}); use it, or end it with: svmsieve cluster down{_dir(folder)}"
            )
        starting = LocalCluster(folder, credentials(folder, "client"))
        (old or starting).remove()  # also what one left that was killed before it had noted anything
        folder.chmod(0o700)
        make_credentials(folder)
        starting.write()
        try:
            started = _with_workers(_with_scheduler(starting), workers, memory, threads)
            _note(started.address).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(_note(started.address), str(folder).encode())
            _note(started.address).chmod(0o600)
        except BaseException:
            (find_cluster(folder) or starting).remove()
            raise
        return started


def end_cluster(folder: Path) -> LocalCluster:
    """End the cluster and return what it was."""
    found = find_cluster(folder) if folder.is_dir() else None
    if found is None:
        raise EngineError(f"no cluster is up in {folder}; start one with: svmsieve cluster up{_dir(folder)}")
    with _own(folder):
        found.remove()
    if not any(folder.iterdir()):
        folder.rmdir()
    return found


def _with_scheduler(starting: LocalCluster) -> LocalCluster:
    log, file = starting.folder / "scheduler.log", starting.folder / SCHEDULER
    words = f"--host tls://{HOST} --port 0 --no-dashboard --dashboard-address {HOST}:0 --scheduler-file".split()
    found = _joined(starting, "distributed.cli.dask_scheduler", [*words, str(file)], log)
    _until(lambda: file.exists() and file.read_text().endswith("}"), found, "the scheduler does not start")
    found = replace(found, address=json.loads(file.read_text())["address"])
    found.write()
    return found


def _with_workers(found: LocalCluster, workers: int, memory: int, threads: int) -> LocalCluster:
    words = f"--host {HOST} --nthreads {threads} --memory-limit {memory} --no-dashboard --dashboard-address {HOST}:0"
    local = ["--local-directory", str(found.folder / WORK), "--death-timeout", str(SECONDS_TO_START)]
    for k in range(workers):
        log = found.folder / f"worker-{k}.log"
        found = _joined(found, "distributed.cli.dask_worker", [found.address, *words.split(), *local], log)
    security = client_security(found.client)
    with Client(found.address, timeout=SECONDS_TO_START, set_as_default=False, security=security) as client:
        _until(lambda: len(client.nthreads()) >= workers, found, f"not all of {workers} workers have started")
    return found


def _joined(found: LocalCluster, module: str, words: list[str], log: Path) -> LocalCluster:
    """Start one more process and note it, so that it can be ended whatever happens to us."""
    files = credentials(found.folder, "worker" if found.members else "scheduler")
    tls = ["--tls-ca-file", files.ca, "--tls-cert", files.cert, "--tls-key", files.key]
    log.unlink(missing_ok=True)
    found = replace(
        found, members=(*found.members, start_process(["-m", module, *words, *tls], os.environ | NO_PAGES, log))
    )
    found.write()
    return found


def _until(condition: Callable[[], bool], found: LocalCluster, problem: str) -> None:
    """Wait for a condition; a process that ends meanwhile, or too long a wait, is an error with its last words."""
    deadline = time.monotonic() + SECONDS_TO_START
    while not condition():
        ended = [k for k, each in enumerate(found.members) if not each.alive()]
        if ended or time.monotonic() > deadline:
            which = ended[0] if ended else len(found.members) - 1
            log = found.folder / ("scheduler.log" if which == 0 else f"worker-{which - 1}.log")
            raise EngineError(f"{problem}; the end of {log.name}: {_last_words(log)}")
        time.sleep(0.05)


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return " / ".join([line.strip() for line in lines if line.strip()][-3:]) or "nothing"


@contextmanager
def _own(folder: Path) -> Iterator[None]:
    """Have the folder to ourselves: it is ours alone to read, and no other up or down is at work in it."""
    with one_line(lambda reason: EngineError(f"{folder}: cannot be used ({reason}); name another --dir")):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_owner(folder)
        foreign = {path.name for path in folder.iterdir()} - {path.name for path in _own_files(folder)} - {WORK}
        if foreign:
            raise EngineError(f"{folder}: {min(foreign)} there is not part of a cluster; name another --dir")
        with locked(folder, EngineError(f"{folder}: another svmsieve cluster command is at work; wait for it")):
            yield


def _check_owner(folder: Path) -> None:
    """Raise EngineError for a folder of somebody else's, who could name processes of ours in it, or read our keys."""
    if folder.stat().st_uid != os.geteuid():
        raise EngineError(f"{folder}: belongs to another user; name another --dir")


def _own_files(folder: Path) -> list[Path]:
    named = [folder / name for name in (STATE, SCHEDULER, *FILES, *OLDER)]
    return [*named, folder / "scheduler.log", *folder.glob("worker-*.log"), *folder.glob(f"{STATE}*.tmp")]


def _dir(folder: Path) -> str:
    return "" if folder == default_folder() else f" --dir {folder}"


def _state_folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "svmsieve"


def _place(address: str) -> tuple[str | None, int | None]:
    parts = urlsplit(address)
    return HOST if parts.hostname == "localhost" else parts.hostname, parts.port


def _note(address: str) -> Path:
    host, port = _place(address)
    return _state_folder() / "clusters" / f"{host}-{port}"
