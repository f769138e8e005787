"""What clusters do: workers die, join late, run out of memory or have other versions; the scheduler goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import dask
import numpy as np
import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.shards.mapping import _kept_map
from pipeline.engine import cluster as cluster_module
from pipeline.engine import cluster_pass, connection, on_worker
from pipeline.engine.engine import Engine
from pipeline.errors import DatasetError, EngineError
from pipeline.passes.sums import cost_sum
from tests.clusters import RealCluster, real_cluster, until
from tests.trained import shards_of, sparse_rows

ROOT = Path(__file__).parents[2]


@pytest.fixture
def engine(cluster):
    with Engine(cluster.address) as engine:
        yield engine


@contextmanager
def meanwhile(action: Callable[[], None]) -> Iterator[None]:
    """Do something while the block runs; it must succeed."""
    failed = []

    def act() -> None:
        try:
            action()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failed, failed


# The tasks, in the workers


def held_up(shard, w, folder):
    """Say who works on the shard, wait until told to go on, and return floats whose sum depends on the order."""
    (Path(folder) / f"at-{shard}-{os.getpid()}").touch()
    until((Path(folder) / "go").exists)
    rng = np.random.default_rng(shard)
    return rng.standard_normal(4) * 10.0 ** rng.integers(-12, 12, 4) * w[shard]


def large(shard, w, folder):
    """Return 8 MB, and say that the work is done just before."""
    found = np.full(1_000_000, w[shard])
    (Path(folder) / f"at-{shard}-{os.getpid()}").touch()
    return found


def added(parts):
    return reduce(np.add, parts)


def die(shard, *_):
    if shard == 2:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    return [shard]


def exhaust(shard):
    return np.ones(1 << 50) if shard == 3 else None


def nothing(parts):
    return None


def process_id(shard):
    return {os.getpid()}


def joined(parts):
    return set().union(*parts)


def seen(folder: Path, shard: int | str = "*") -> list[int]:
    """Return the ids of the processes that worked on a shard."""
    return [int(path.name.rpartition("-")[2]) for path in folder.glob(f"at-{shard}-*")]


def expected(folder: Path, w: np.ndarray) -> bytes:
    (folder / "go").touch()
    with Engine("inline") as one:
        found = one.reduce(held_up, range(w.size), added, w, str(folder))
    (folder / "go").unlink()
    for path in folder.glob("at-*"):
        path.unlink()
    return found.tobytes()


# Workers that go and come


def test_a_worker_killed_during_a_pass_changes_nothing(engine, cluster, tmp_path):
    w = np.linspace(0.1, 1, 9)
    right = expected(tmp_path, w)

    def kill_one() -> None:
        until(lambda: seen(tmp_path))
        cluster.kill(next(each for each in cluster.workers if each.pid in seen(tmp_path)))
        (tmp_path / "go").touch()

    with meanwhile(kill_one):
        assert engine.reduce(held_up, range(9), added, w, str(tmp_path)).tobytes() == right


def test_what_was_shared_is_shared_again_when_all_workers_died(engine, cluster, tmp_path):
    w = np.linspace(0.1, 1, 9)
    right = expected(tmp_path, w)

    def kill_all() -> None:
        until(lambda: seen(tmp_path))
        for worker in list(cluster.workers):
            cluster.kill(worker)
        (tmp_path / "go").touch()
        cluster.add_worker()

    with meanwhile(kill_all):
        assert engine.reduce(held_up, range(9), added, w, str(tmp_path)).tobytes() == right


def test_a_worker_killed_while_results_are_fetched_changes_nothing(engine, cluster, tmp_path):
    w = np.linspace(0.1, 1, 12)

    def kill_one() -> None:
        until(lambda: seen(tmp_path))
        cluster.kill(next(each for each in cluster.workers if each.pid in seen(tmp_path)))

    with meanwhile(kill_one):
        found = list(engine.stream(large, range(12), w, str(tmp_path), window=4))
    assert [(part.size, part[0], part[-1]) for part in found] == [(1_000_000, x, x) for x in w]


def test_a_worker_that_joins_late_takes_part(engine, cluster, tmp_path):
    w = np.linspace(0.1, 1, 12)
    right = expected(tmp_path, w)

    def add_one() -> None:
        until(lambda: len(set(seen(tmp_path))) == 2)
        late = cluster.add_worker()
        until(lambda: late.pid in seen(tmp_path), "the late worker got nothing to do")
        (tmp_path / "go").touch()

    with meanwhile(add_one):
        assert engine.reduce(held_up, range(12), added, w, str(tmp_path)).tobytes() == right
    pids = engine.reduce(process_id, range(30), joined)
    assert engine.backend.workers == 3
    assert pids <= {worker.pid for worker in cluster.workers}
    cluster.kill(cluster.workers[-1])


def test_no_worker_left_is_an_error_that_names_the_shard(engine, cluster, monkeypatch):
    monkeypatch.setattr(cluster_module, "SECONDS_FOR_WORKERS", 1.0)
    expected = r"lost all its workers \(out of memory or killed, 2 of them at shard 2\); give the workers more memory"
    with pytest.raises(EngineError, match=expected):
        engine.reduce(die, range(9), nothing)
    for worker in list(cluster.workers):
        cluster.kill(worker)


def test_a_task_that_takes_every_worker_with_it_is_named(tmp_path, monkeypatch, nursery):
    monkeypatch.setattr(cluster_pass, "DEATHS_AT_A_SHARD", 4)
    expected = r"[4-6] workers of .* died, each at shard 2 \(most likely out of memory\); give the workers more memory"
    with (
        real_cluster(tmp_path, workers=6, allowed_failures=1, nursery=nursery) as cluster,
        Engine(cluster.address) as engine,
        pytest.raises(EngineError, match=expected),
    ):
        engine.reduce(die, range(9), nothing, np.ones(3))


def test_a_worker_out_of_memory_is_named_with_the_shard(engine):
    with pytest.raises(EngineError, match=r"worker tls://127\.0\.0\.1:\d+ ran out of memory at shard 3; give the work"):
        engine.reduce(exhaust, range(6), nothing)


def test_workers_that_are_paused_are_not_waited_for_for_ever(running, monkeypatch):
    """Dask gives no tasks to a worker whose memory is nearly used up."""
    monkeypatch.setattr(cluster_module, "SECONDS_FOR_WORKERS", 2.0)
    for worker in list(running.workers):
        running.kill(worker)
    full = running.add_worker(options=["--memory-limit", "50MB"])

    def statuses(dask_scheduler):
        return {each.status.name for each in dask_scheduler.workers.values()}

    try:
        with running.client() as client:
            until(lambda: client.run_on_scheduler(statuses) == {"paused"}, "Dask has not looked at its memory yet")
        expected = r"all workers of the Dask cluster at tls://.* are paused: their memory is"
        with pytest.raises(EngineError, match=expected), Engine(running.address) as engine:
            engine.reduce(process_id, range(3), joined)
    finally:
        running.kill(full)


def test_mapped_shards_are_let_go_before_dask_counts_them(tmp_path):
    data = shards_of(tmp_path, sparse_rows())
    _kept_map.cache_clear()
    for limit, kept in ((0, 1), (1 << 50, 2), (1 << 20, 0)):
        data.shards[kept % 2].load()
        on_worker.relieve(limit)
        assert _kept_map.cache_info().currsize == kept


def test_a_shard_that_one_worker_cannot_read(cluster, tmp_path, monkeypatch):
    """Every process has a current directory of its own; one worker's is another."""
    table = sparse_rows()
    shards_of(tmp_path, table)
    for worker in list(cluster.workers):
        cluster.kill(worker)
    cluster.add_worker(cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    data = open_shards("/proc/self/cwd/shards")
    with Engine(cluster.address) as engine, Engine("inline") as one:
        assert cost_sum(engine, data).tobytes() == cost_sum(one, data).tobytes()
        elsewhere = cluster.add_worker()
        cluster.kill(cluster.workers[0])
        where = r"^on worker tls://127\.0\.0\.1:\d+ \(does it see .*\): /proc/self/cwd/shards/shard-0000\d\.arrow: the "
        with pytest.raises(DatasetError, match=where):
            cost_sum(engine, data)
    cluster.kill(elsewhere)


# A scheduler that goes, a client that leaves


def test_a_scheduler_that_is_gone_is_an_error_soon(tmp_path, monkeypatch, nursery):
    monkeypatch.setattr(connection, "SECONDS_TO_CONNECT", 1.0)
    with (
        real_cluster(tmp_path / "cluster", workers=1, nursery=nursery) as cluster,
        Engine(cluster.address) as engine,
    ):

        def kill_scheduler() -> None:
            until(lambda: seen(tmp_path))
            cluster.scheduler.kill()

        with (
            meanwhile(kill_scheduler),
            pytest.raises(EngineError, match=r"scheduler at tls://.* is gone; start it and"),
        ):
            engine.reduce(held_up, range(3), added, np.ones(3), str(tmp_path))
        with pytest.raises(EngineError, match="is gone"):
            engine.reduce(process_id, range(3), joined)
        (tmp_path / "go").touch()


PROGRAM = """
import sys
import numpy as np
from pipeline.engine.engine import Engine
from tests.engine.test_cluster import added, held_up

with Engine(sys.argv[1]) as engine:
    engine.reduce(held_up, range(20), added, np.ones(20), sys.argv[2])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_leaves_leaves_no_tasks(cluster, tmp_path, number):
    environment = os.environ | cluster.environment() | {"PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", PROGRAM, cluster.address, str(tmp_path)]
    with subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: seen(tmp_path))
            process.send_signal(number)
            said = process.communicate(timeout=30)[1]
        finally:
            process.kill()
    assert ("KeyboardInterrupt" in said) == (number == signal.SIGINT)
    (tmp_path / "go").touch()
    with cluster.client() as client:
        until(lambda: client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0)
        until(lambda: not any(client.run(lambda dask_worker: len(dask_worker.data)).values()))
    assert len(seen(tmp_path)) < 20


# Versions


def without_svmsieve(folder: Path) -> Path:
    """Make a folder of everything that is installed but svmsieve."""
    folder.mkdir()
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(place).iterdir():
            ours = entry.name.startswith(("svmsieve", "_svmsieve", "__editable__")) or entry.name == "pipeline"
            if not (ours or entry.suffix == ".pth" or (folder / entry.name).exists()):
                (folder / entry.name).symlink_to(entry)
    return folder


def other_version(folder: Path) -> Path:
    """Make a folder that says svmsieve is another version."""
    (folder / "svmsieve-9.9.9.dist-info").mkdir(parents=True)
    (folder / "svmsieve-9.9.9.dist-info" / "METADATA").write_text("Name: svmsieve\nVersion: 9.9.9\n")
    return folder


def misfit(cluster: RealCluster, tmp_path: Path, kind: str):
    if kind == "missing":
        paths = {"PYTHONPATH": str(without_svmsieve(tmp_path / "site"))}
        return cluster.add_worker(python=("-S",), environment=paths, cwd=tmp_path)
    paths = [str(other_version(tmp_path / "other")), str(ROOT)]
    return cluster.add_worker(environment={"PYTHONPATH": os.pathsep.join(paths)})


MISFITS = {
    "missing": r"^worker tls://127\.0\.0\.1:\d+ has no svmsieve \(here: [\d.]+\); install svmsieve [\d.]+ there$",
    "other": r"^worker tls://127\.0\.0\.1:\d+ has svmsieve 9\.9\.9, but here it is [\d.]+; install the same version",
}


@pytest.mark.parametrize("kind", list(MISFITS))
def test_other_versions_are_found_at_the_start_and_later(cluster, tmp_path, kind):
    with Engine(cluster.address) as engine:
        worker = misfit(cluster, tmp_path, kind)
        try:
            with pytest.raises(EngineError, match=MISFITS[kind]):
                Engine(cluster.address)
            time.sleep(cluster_module.SECONDS_BETWEEN_LOOKS)
            with pytest.raises(EngineError, match=MISFITS[kind]):
                engine.reduce(process_id, range(3), joined)
        finally:
            cluster.kill(worker)
        until(lambda: len(engine.backend.client.nthreads()) == 2)
        assert engine.reduce(process_id, range(9), joined) <= {each.pid for each in cluster.workers}


def test_a_misfit_that_joins_during_a_pass_is_found_before_its_results_are_used(engine, cluster, tmp_path):
    workers = []

    def add_misfit() -> None:
        until(lambda: seen(tmp_path))
        workers.append(misfit(cluster, tmp_path, "other"))
        time.sleep(2 * cluster_module.SECONDS_BETWEEN_LOOKS)
        (tmp_path / "go").touch()

    try:
        with meanwhile(add_misfit), pytest.raises(EngineError, match=MISFITS["other"]):
            engine.reduce(held_up, range(9), added, np.ones(9), str(tmp_path))
    finally:
        for worker in workers:
            cluster.kill(worker)


def test_no_credentials_is_one_line_that_says_what_to_set(cluster, monkeypatch):
    with (
        dask.config.set(dict.fromkeys(cluster.configuration())),
        pytest.raises(EngineError, match=r"needs TLS credentials; set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, DASK_"),
    ):
        Engine(cluster.address)


def test_certificates_of_another_authority_are_refused(cluster, tmp_path):
    stranger = RealCluster(tmp_path)
    with (
        dask.config.set(stranger.configuration()),
        pytest.raises(EngineError, match=r"no Dask scheduler answers at tls://") as caught,
    ):
        Engine(cluster.address)
    assert "\n" not in str(caught.value)
