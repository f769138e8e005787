"""``svmsieve cluster up`` and ``down``: real processes, ended to the last one, and never a stranger."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pipeline.engine import local_cluster
from pipeline.engine.engine import Engine
from pipeline.engine.local_cluster import credentials_of, default_folder, end_cluster, find_cluster, start_cluster
from pipeline.engine.member import Member, end, member, start_process
from pipeline.errors import EngineError
from tests.clusters import ROOT, until
from tests.trained import command


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    """Keep away from a cluster of the user's, and leave none behind."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield
    for folder in (default_folder(), tmp_path / "here"):
        if find_cluster(folder):
            end_cluster(folder)


def svmsieve(*words: str) -> subprocess.CompletedProcess:
    program = [sys.executable, "-c", "from pipeline.cli import main; main()", *words]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def family(pids: list[int]) -> list[psutil.Process]:
    leaders = [psutil.Process(pid) for pid in pids]
    return leaders + [child for leader in leaders for child in leader.children(recursive=True)]


def test_up_is_used_by_its_address_alone_and_ended_by_down(tmp_path):
    done = svmsieve("cluster", "up", "--workers", "2", "--memory", "1GB", "--dir", str(tmp_path / "here"))
    assert (done.returncode, done.stderr) == (0, "")
    state = json.loads((tmp_path / "here" / "cluster.json").read_text())
    address = state["address"]
    assert done.stdout.splitlines()[0].startswith(f"{address}: a scheduler and 2 workers")
    assert done.stdout.splitlines()[1] == f"svmsieve path DATA --out RUN --scheduler {address}"
    processes = family([each["pid"] for each in state["members"]])
    assert len(processes) >= 5, "a scheduler, two nannies and their workers"
    listening = [c for p in processes for c in p.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert {connection.laddr.ip for connection in listening} == {"127.0.0.1"}
    assert stat.S_IMODE((tmp_path / "here").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "here" / "client-key.pem").stat().st_mode) == 0o600

    with Engine(address) as engine:
        assert engine.backend.workers == 2
        pids = engine.reduce(process_id, range(20), joined)
        limits = engine.backend.client.run(lambda dask_worker: dask_worker.memory_manager.memory_limit)
    assert pids <= {process.pid for process in processes}
    assert set(limits.values()) == {10**9}

    again = svmsieve("cluster", "up", "--dir", str(tmp_path / "here"))
    assert again.returncode == 1
    assert again.stderr.startswith(f"svmsieve: a cluster is up already ({address}); use it, or end it with: svmsieve")
    status = svmsieve("cluster", "status", "--dir", str(tmp_path / "here"))
    assert status.stdout == f"{address}: 3 of 3 processes running\n"

    ended = svmsieve("cluster", "down", "--dir", str(tmp_path / "here"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{address}: ended\n", "")
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)
    assert not (tmp_path / "here").exists()
    assert credentials_of(address) is None
    nothing = svmsieve("cluster", "down", "--dir", str(tmp_path / "here"))
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr.startswith(f"svmsieve: no cluster is up in {tmp_path / 'here'}; start one with: svmsieve")


def process_id(shard):
    return {os.getpid()}


def joined(parts):
    return set().union(*parts)


def test_a_start_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    started = []

    def spied(arguments, environment, log):
        wrong = [*arguments, "--no-such-option"] if "distributed.cli.dask_worker" in arguments else arguments
        started.append(start_process(wrong, environment, log))
        return started[-1]

    monkeypatch.setattr(local_cluster, "start_process", spied)
    with pytest.raises(
        EngineError, match=r"not all of 2 workers .*; the end of worker-\d\.log: .*no-such-option"
    ) as caught:
        start_cluster(tmp_path / "here", 2, 10**9)
    assert "\n" not in str(caught.value)
    assert len(started) == 3
    assert not any(each.alive() for each in started)
    for each in started:
        os.waitpid(each.pid, 0)
    assert not list((tmp_path / "here").iterdir())
    assert not list((tmp_path / "state").rglob("127*"))


def test_only_the_process_that_was_started_is_ended():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        try:
            known = member(stranger.pid)
            assert known is not None
            end([Member(stranger.pid, known.began[:-1] + "x")])
            assert stranger.poll() is None
            assert known.alive()
        finally:
            stranger.kill()
    assert not known.alive()
    assert member(stranger.pid) is None


def test_a_process_that_does_not_listen_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.engine.member.SECONDS_TO_END", 0.5)
    deaf = "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(1, b'deaf'); signal.pause()"
    started = start_process(["-c", deaf], os.environ, tmp_path / "log")
    until(lambda: (tmp_path / "log").read_text() == "deaf")
    end([started])
    assert not started.alive()
    os.waitpid(started.pid, 0)


def test_the_files_of_a_cluster_that_died_are_replaced(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir(mode=0o700)
    old = {"address": "tls://127.0.0.1:1", "members": [{"pid": os.getpid(), "began": "another boot:1"}]}
    (folder / "cluster.json").write_text(json.dumps(old | {"certificates": {"ca": "", "cert": "", "key": ""}}))
    monkeypatch.setattr(local_cluster, "start_process", lambda *_: Member(os.getpid(), "ended"))
    with pytest.raises(EngineError, match="the scheduler does not start"):
        start_cluster(folder, 1, 10**9)
    assert not list(folder.iterdir())


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(EngineError, match=r"thesis\.tex there is not part of a cluster; name another --dir"):
        start_cluster(tmp_path, 1, 10**9)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_nothing_is_up_by_default(capsys):
    assert command(capsys, "cluster", "status") == (0, f"no cluster is up in {default_folder()}\n", "")
    assert command(capsys, "cluster", "down")[0] == 1
    assert command(capsys, "cluster", "up", "--memory", "much")[0] == 2
    assert not Path(default_folder()).exists()


def test_a_process_is_known_by_the_same_words_as_before_psutil(monkeypatch):
    """A cluster that an older svmsieve started is still ours to end; a clock that was set changes nothing."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}:{fields[19]}"
    assert member(os.getpid()) == Member(os.getpid(), began)
    booted = psutil.boot_time()
    for module in (psutil, psutil._pslinux):
        monkeypatch.setattr(module, "boot_time", lambda: booted + 3600.0)
    assert Member(os.getpid(), began).alive()


def test_the_group_of_a_process_is_all_it_started_and_no_more(tmp_path):
    code = "import subprocess; child = subprocess.Popen(['sleep', '60']); print(child.pid, flush=True); child.wait()"
    leader = start_process(["-c", code], os.environ, tmp_path / "log")
    until(lambda: (tmp_path / "log").read_text().endswith("\n"))
    child = member(int((tmp_path / "log").read_text()))
    assert set(leader.group()) == {leader, child}
    end([leader])
    assert not leader.alive() and not child.alive()
    assert leader.group() == []
    os.waitpid(leader.pid, 0)
