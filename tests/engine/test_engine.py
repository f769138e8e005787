"""The engine: the same result to the bit wherever it runs, arrays that travel once, failures that say what failed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import cloudpickle
import numpy as np
import psutil
import pytest
from distributed import LocalCluster

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.inputs import open_dataset
from pipeline.engine import cluster as cluster_module
from pipeline.engine import connection
from pipeline.engine.cluster import Cluster
from pipeline.engine.engine import Engine
from pipeline.engine.tree import FAN_IN
from pipeline.errors import DataError, EngineError
from pipeline.passes.gather import gather
from pipeline.passes.products import margins
from pipeline.passes.sums import cost_sum
from pipeline.use.describe import describe
from tests.formats import Table, write_parquet_lists

LIMIT = 60.0
BACKENDS = ["inline", "threads-1", "threads-2", "threads-5", "processes-2", "cluster"]
SHARDS = [1, 2, 7, 9, 65]
LOOPBACK = {  # any free port for the dashboard: Dask warns where its usual one is taken
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": "127.0.0.1:0",
}


@pytest.fixture(scope="module", autouse=True)
def warm_processes():
    """None: here they are what users have."""


@pytest.fixture(scope="module")
def address():
    """A real cluster: a scheduler and two worker processes on the loopback interface."""
    with LocalCluster(n_workers=2, **LOOPBACK) as running:
        yield running.scheduler_address


@pytest.fixture(scope="module")
def engines(address):
    """Every kind of engine, started once."""
    made: dict[str, Engine] = {}

    def get(name: str) -> Engine:
        if name not in made:
            kind, _, workers = name.partition("-")
            made[name] = Engine(address if kind == "cluster" else kind, int(workers) if workers else None)
        return made[name]

    yield get
    for engine in made.values():
        engine.close()


@pytest.fixture(params=BACKENDS)
def engine(engines, request):
    return engines(request.param)


@pytest.fixture(params=["threads-2", "processes-2", "cluster"])
def parallel_engine(engines, request):
    return engines(request.param)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that has to happen soon."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


# The tasks; worker processes import them from here


def numbers(shard, *_):
    """Floats of very different sizes, so that every order of additions has a sum of its own."""
    time.sleep((shard * 7919 % 5) / 500)  # the order of completion is not that of the shards
    rng = np.random.default_rng(shard)
    return rng.standard_normal(4) * 10.0 ** rng.integers(-12, 12, 4)


def add(parts):
    assert len(parts) <= FAN_IN
    return reduce(np.add, parts)


def as_list(shard, *_):
    return [shard]


def chained(parts):
    assert len(parts) <= FAN_IN
    return [shard for part in parts for shard in part]


def product(shard, w, factor):
    return np.array([shard * factor * w[shard]])


def process_and_unpickled(shard, counted):
    return [(os.getpid(), counted.unpickled)]


def what_arrives(shard, *shared):
    return [[(type(value), value if isinstance(value, str | dict | list) else None) for value in shared]]


def write_to_shared(shard, w):
    w[0] = 1.0


def pieces_of_memory() -> set[tuple[str, int]]:
    """Return the memory that this process holds to share, by descriptor and inode."""
    links = [(path, path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return {(path.name, path.stat().st_ino) for path, link in links if "memfd:svmsieve" in str(link)}


def memory_maps(shard, w):
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [(type(w), float(w[0]), len({line.split()[5] for line in maps if "memfd:svmsieve-" in line}))]


def meet(shard, folder):
    """Return when the other task is running too."""
    Path(folder, str(shard)).touch()
    until(lambda: len(list(Path(folder).iterdir())) == 2)
    return [os.getpid()]


def fail(shard, only):
    if shard == only:
        raise DataError("bad value", path="rows.svm", row=12, unit="line")
    return [shard]


def fail_unless(shard):
    if not shard.exists():
        raise DataError("not there yet", path=str(shard))
    return [shard]


def die(shard, *_):
    if shard == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return [shard]


class Counted:
    """Knows how often this process unpickled one of its kind."""

    unpickled = 0

    def __setstate__(self, state):
        type(self).unpickled += 1

    def __getstate__(self):
        return {"something": 1}


# The same result everywhere


def tree(parts):
    """Merge as the engine says it does: neighbours, FAN_IN at a time, level by level."""
    while len(parts) > FAN_IN:
        parts = [add(parts[k : k + FAN_IN]) for k in range(0, len(parts), FAN_IN)]
    return add(parts)


@pytest.mark.parametrize("shards", SHARDS)
def test_reduce_is_the_same_to_the_bit(engine, shards):
    expected = tree([numbers(shard) for shard in range(shards)])
    assert engine.reduce(numbers, range(shards), add).tobytes() == expected.tobytes()


def test_the_order_of_additions_matters_in_these_tests():
    parts = [numbers(shard) for shard in range(65)]
    assert tree(parts).tobytes() != reduce(np.add, parts).tobytes()
    assert tree(parts).tobytes() != tree(parts[::-1]).tobytes()


@pytest.mark.parametrize("shards", SHARDS)
def test_stream_is_in_shard_order(engine, shards):
    found = list(engine.stream(numbers, range(shards)))
    assert [part.tobytes() for part in found] == [numbers(shard).tobytes() for shard in range(shards)]
    assert engine.reduce(as_list, range(shards), chained) == list(range(shards))


def test_a_pass_over_nothing(engine):
    assert list(engine.stream(numbers, [])) == []
    with pytest.raises(ValueError, match="at least one shard"):
        engine.reduce(numbers, [], add)


@pytest.mark.parametrize(("name", "window"), [("inline", 2), ("threads-2", 4)])
def test_stream_runs_ahead_by_two_shards_a_worker_only(engines, name, window):
    done = []
    found = engines(name).stream(done.append, range(40))
    next(found)
    until(lambda: len(done) == window)
    time.sleep(0.05)
    assert sorted(done) == list(range(window))
    found.close()


def test_tasks_run_at_the_same_time(parallel_engine, tmp_path):
    pids = parallel_engine.reduce(meet, range(2), chained, str(tmp_path))
    assert len(set(pids)) == (1 if parallel_engine.backend.name == "threads" else 2)


def test_passes_over_real_shards_are_the_same_everywhere(engine, tmp_path):
    rng = np.random.default_rng(0)
    x = np.where(rng.random((40, 6)) < 0.5, rng.standard_normal((40, 6)), 0.0)
    table = Table(x, np.where(rng.random(40) < 0.5, 1, -1), rng.random(40) + 0.1)
    write_parquet_lists(tmp_path / "rows.parquet", table, row_group_size=3)
    ingest([str(tmp_path / "rows.parquet")], tmp_path / "shards", IngestSpec(rows_per_shard=3))
    w, mask = rng.standard_normal(6), rng.random(40) < 0.3
    with Engine("inline") as one:
        for data in (open_shards(tmp_path / "shards"), open_dataset(tmp_path / "rows.parquet")):
            assert margins(engine, data, w).tobytes() == margins(one, data, w).tobytes()
            assert cost_sum(engine, data).tobytes() == cost_sum(one, data).tobytes()
            assert describe(engine, data) == describe(one, data)
            np.testing.assert_array_equal(gather(engine, data, mask).x.toarray(), x[mask])


# Shared objects


def test_shared_objects_arrive_as_they_are(engine):
    w = np.linspace(0, 1, 9)
    found = engine.reduce(product, range(9), np.concatenate, w, 0.1)
    np.testing.assert_array_equal(found, [shard * 0.1 * w[shard] for shard in range(9)])
    shared = ("text", {"a": 1}, [1, 2], np.zeros(3), np.zeros(0), np.array(["a", None], dtype=object))
    kinds = engine.reduce(what_arrives, range(2), chained, *shared)
    assert kinds == [[(str, "text"), (dict, {"a": 1}), (list, [1, 2]), *[(np.ndarray, None)] * 3]] * 2


def test_shared_arrays_are_read_only(engine):
    w = np.zeros(3)
    with pytest.raises(ValueError, match="read-only"):
        engine.reduce(write_to_shared, range(2), chained, w)
    assert w.flags.writeable
    assert not w.any()


@pytest.mark.parametrize("name", ["processes-2", "cluster"])
def test_no_task_carries_the_array(engines, name, monkeypatch):
    engine, sizes = engines(name), []
    where = engine.backend.pool if name == "processes-2" else engine.backend.client
    submit = where.submit

    def spy(*arguments, **options):
        sizes.append(len(cloudpickle.dumps(arguments)))
        return submit(*arguments, **options)

    monkeypatch.setattr(where, "submit", spy)
    engine.reduce(product, range(20), np.concatenate, np.ones(1_000_000), 2.0)
    a_pass = 4 if name == "processes-2" else 6
    assert len(sizes) == a_pass, "two runs a worker, and on the cluster one task that makes a copy"
    assert len(list(engine.stream(product, range(20), np.ones(1_000_000), 2.0, window=20))) == 20
    assert len(sizes) == 2 * a_pass
    assert max(sizes) < 5_000


def test_a_cluster_worker_unpickles_a_shared_object_once_a_run(engines):
    engine, counts = engines("cluster"), {}
    for passes in (1, 2):
        found = engine.reduce(process_and_unpickled, range(30), chained, Counted())
        counts[passes] = {pid: max(count for other, count in found if other == pid) for pid, _ in found}
    assert len(counts[1]) == 2
    assert all(counts[2][pid] == count + 2 for pid, count in counts[1].items()), "of two runs each"


@pytest.mark.parametrize(("name", "maps"), [("processes-2", 1), ("cluster", 0)])
def test_processes_of_this_machine_map_one_piece_of_memory_and_let_go_of_it(engines, name, maps):
    """Workers of a cluster have copied it before they begin."""
    before = pieces_of_memory()  # of engines of other files that nobody has collected yet
    for value in range(1, 4):
        found = engines(name).reduce(memory_maps, range(8), chained, np.full(100_000, float(value)))
        assert found == [(np.ndarray, float(value), maps)] * 8
    assert engines(name).reduce(memory_maps, range(8), chained, np.ones(1)) == [(np.ndarray, 1.0, 0)] * 8
    assert len(pieces_of_memory() - before) <= 1, "what neighbours are known by"


def test_workers_of_other_machines_are_sent_the_array(engines, monkeypatch):
    engine, w = engines("cluster"), np.linspace(0, 1, 100_000)
    monkeypatch.setattr(engine.backend.neighbours, "all", False)
    found = engine.reduce(product, range(9), np.concatenate, w, 0.1)
    np.testing.assert_array_equal(found, [shard * 0.1 * w[shard] for shard in range(9)])
    assert engine.reduce(memory_maps, range(8), chained, w + 1.0) == [(np.ndarray, 1.0, 0)] * 8


def test_cluster_workers_drop_shared_objects_after_the_pass(engines):
    engine = engines("cluster")
    engine.reduce(product, range(5), np.concatenate, np.ones(100_000), 2.0)
    list(engine.stream(product, range(5), np.ones(100_000), 2.0))
    until(lambda: not any(engine.backend.client.run(lambda dask_worker: len(dask_worker.data)).values()))


def test_no_room_for_the_array_is_an_engine_error(engines, monkeypatch):
    engines("processes-2").reduce(as_list, range(5), chained)  # its processes are there
    write = os.write

    def full(number, content):
        if len(content) == 8000:
            raise OSError(28, "No space left on device")
        return write(number, content)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(EngineError, match=r"no memory for 8000 bytes .* \(No space left on device\); use threads"):
        engines("processes-2").reduce(product, range(5), np.concatenate, np.ones(1000), 2.0)


# Failures


@pytest.mark.parametrize("run", ["reduce", "stream"])
def test_an_error_in_a_task_arrives_with_its_fields(engine, run):
    with pytest.raises(DataError) as caught:
        if run == "reduce":
            engine.reduce(fail, range(12), chained, 5)
        else:
            list(engine.stream(fail, range(12), 5))
    error = caught.value
    assert type(error) is DataError
    assert (error.problem, error.path, error.row, error.unit) == ("bad value", "rows.svm", 12, "line")
    where = r"on worker tcp://127\.0\.0\.1:\d+: " if isinstance(engine.backend, Cluster) else ""
    assert re.fullmatch(f"{where}rows.svm, line 12: bad value", str(error))
    assert engine.reduce(as_list, range(3), chained) == [0, 1, 2]


def test_a_pass_that_failed_is_not_remembered(engine, tmp_path):
    shards = [tmp_path / "there"] * 3
    with pytest.raises(DataError, match="not there yet") as caught:
        engine.reduce(fail_unless, shards, chained)
    shards[0].touch()
    assert engine.reduce(fail_unless, shards, chained) == shards
    assert caught.value.path == str(shards[0])


@pytest.mark.filterwarnings("ignore::pipeline.errors.SieveWarning")  # that another host is reached without TLS
@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("thread", "unknown scheduler 'thread'; use threads, inline, processes or an address"),
        ("", "unknown scheduler ''"),
        (None, "unknown scheduler None"),
        ("tcp://127.0.0.1:1", r"no Dask scheduler answers at tcp://127\.0\.0\.1:1 \(Connection refused\)"),
        ("127.0.0.1:1", r"no Dask scheduler answers at 127\.0\.0\.1:1 "),
        ("tcp://no-such-host.invalid:8786", r"no Dask scheduler answers at tcp://no-such-host\.invalid:8786 "),
        ("http://127.0.0.1:8787", "an address is tcp://host:port or tls://host:port"),
        ("tcp://127.0.0.1", "an address is tcp://host:port or tls://host:port"),
        ("tcp://127.0.0.1:99999", r"no Dask scheduler answers"),
        ("host:port", r"no Dask scheduler answers"),
    ],
)
def test_a_wrong_scheduler_is_one_line_soon(scheduler, message):
    started = time.monotonic()
    with pytest.raises(EngineError, match=message) as caught:
        Engine(scheduler)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - started < 2 * connection.SECONDS_TO_CONNECT


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True])
def test_a_wrong_number_of_workers_is_one_line(workers):
    for scheduler in ("inline", "threads", "processes"):
        with pytest.raises(EngineError, match="workers is a whole number from 1, or None for one a core, not "):
            Engine(scheduler, workers)


def test_something_else_that_listens_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(connection, "SECONDS_TO_CONNECT", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(EngineError, match="no Dask scheduler answers"),
    ):
        Engine(f"tcp://127.0.0.1:{silent.getsockname()[1]}")


def test_a_cluster_without_workers_is_an_error(monkeypatch):
    monkeypatch.setattr(cluster_module, "SECONDS_FOR_WORKERS", 0.2)
    with LocalCluster(n_workers=0, **LOOPBACK) as running, pytest.raises(EngineError, match="has no workers"):
        Engine(running.scheduler_address)


def test_a_killed_worker_process_is_an_error_and_not_the_end(engines):
    engine = engines("processes-2")
    with pytest.raises(
        EngineError, match=r"a worker process was killed at shard 2 \(out of memory, most likely\); use"
    ):
        engine.reduce(die, range(9), chained)
    assert engine.reduce(as_list, range(9), chained) == list(range(9))


def interrupt_handler(shard):
    return [signal.getsignal(signal.SIGINT)]


def test_worker_processes_leave_an_interrupt_to_the_program(engines):
    """Ctrl-C goes to the whole group; each worker would print a traceback of its own."""
    assert engines("processes-2").reduce(interrupt_handler, range(4), chained) == [signal.SIG_IGN] * 4


PROGRAM = """
import os, time
import numpy as np
from pipeline.engine.engine import Engine

def sleep(shard, w):
    os.write(1, b"%d\\n" % os.getpid())  # at once: print() of two processes may mix
    time.sleep(1000)

if __name__ == "__main__":
    with Engine("processes", 2) as engine:
        list(engine.stream(sleep, range(2), np.ones(1000)))
"""


def test_a_killed_program_leaves_no_processes_and_no_files(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "shared").mkdir()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = os.environ | {"TMPDIR": str(tmp_path / "shared")}
    with subprocess.Popen([sys.executable, str(tmp_path / "program.py")], env=environment, **pipes) as process:
        try:
            workers = {int(process.stdout.readline()) for _ in range(2)}
        finally:
            process.kill()
            process.communicate()
    assert len(workers) == 2
    until(lambda: not any(psutil.pid_exists(pid) for pid in workers))
    assert not list(tmp_path.glob("shared/svmsieve-*"))


WITHOUT_A_GUARD = """
from pipeline.engine.engine import Engine

def double(shard):
    return [2 * shard]

with Engine("processes", 2) as engine:
    print(engine.reduce(double, range(4), lambda parts: sum(parts, [])))
"""


@pytest.mark.attack
def test_a_script_without_a_guard_is_told_so(tmp_path):
    """Its worker processes would run it again; they say nothing, and the program says what to do."""
    (tmp_path / "program.py").write_text(WITHOUT_A_GUARD)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr.count("Traceback") == 2, "of the error and its cause, in the program alone"
    assert done.stderr.splitlines()[-1] == (
        "pipeline.errors.EngineError: the worker processes ran your script instead of working; put what your script "
        'does below `if __name__ == "__main__":`, as worker processes import it; or use threads'
    )
    assert not list(tmp_path.glob("svmsieve-*"))
