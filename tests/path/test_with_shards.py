"""Arrays by row that are with the shards on a cluster: the bits of one machine, and little that travels."""

from __future__ import annotations

import pickle
import random
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import budget
from pipeline.data.dataset import open_shards
from pipeline.data.registry.synthetic import make
from pipeline.engine import kept as kept_module
from pipeline.engine.cluster import Cluster
from pipeline.engine.engine import Engine
from pipeline.engine.kept import Keeper, Kept
from pipeline.engine.neighbours import Neighbours
from pipeline.engine.together import Partner, Together
from pipeline.errors import EngineError, KeptLostError
from pipeline.events import Note, StepProgress
from pipeline.path.fit import fit_path
from pipeline.path.train import train_run
from pipeline.spec import PathSpec
from pipeline.working import blocks, state, with_shards
from pipeline.working.blocks import Column
from pipeline.working.rows import WorkingRows
from pipeline.working.state import blocks_of
from pipeline.working.with_shards import ShardState, kept_with_shards
from tests.clusters import Deaths
from tests.worlds import plain_world, write_shards

SETTINGS = {"epsilon": 0.1, "c_max": 0.1, "tol": 1e-3, "memory": 2_000_000_000}
FEW_SOLVED_FOR = {"grid": (0.01, 0.011), "tol": 1e-3, "memory": 2_000_000_000}
BLOCKS = {"grid": (1e-4, 1e-3), "tol": 1e-2, "predict": False, "memory": 20_000_000}


@pytest.fixture(scope="module", autouse=True)
def small_is_large():
    """Let a dozen shards be a dozen blocks, and few rows many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "BLOCK_NONZEROS", 1)
        patch.setattr(with_shards, "LEAST_ROWS", 0)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """url-like at scale 0.01 in a dozen shards."""
    folder = tmp_path_factory.mktemp("url") / "shards"
    make("url-like", folder, 0.01, shard_bytes=2_000_000)
    return open_shards(folder)


@pytest.fixture(scope="module")
def here(data, tmp_path_factory):
    """The models of a run on one machine, made once for each setting."""
    found: dict[str, list[bytes]] = {}

    def models_of(settings: dict[str, Any]) -> list[bytes]:
        if str(settings) not in found:
            found[str(settings)] = models(fit_path(data, out=tmp_path_factory.mktemp("one") / "run", **settings).path)
        return found[str(settings)]

    return models_of


@pytest.fixture
def cluster(running):
    """A cluster of three workers, whatever earlier tests did to it."""
    running.have_workers(3)
    return running


def models(run: Path) -> list[bytes]:
    """Return the bytes of every model of a run."""
    return [path.read_bytes() for path in sorted((run / "models").glob("*.npz"))]


class Calls:
    """What the calls of workers sent and brought back, and something to do at one of them."""

    def __init__(self, monkeypatch) -> None:
        self.sent: list[tuple[str, int, int]] = []
        self.at: dict[int, Any] = {}
        each = Kept.each

        def spy(kept: Kept, function, *arguments, shared=(), own=None):
            self.at.pop(len(self.sent), lambda: None)()
            found = each(kept, function, *arguments, shared=shared, own=own)
            down = len(pickle.dumps(arguments)) + sum(len(pickle.dumps(mine)) for mine in own or ())
            name = arguments[0].__name__ if function is blocks.on_rows else function.__name__
            self.sent.append((name, down, sum(len(pickle.dumps(part)) for part in found)))
            return found

        monkeypatch.setattr(Kept, "each", spy)


@pytest.fixture
def calls(monkeypatch):
    return Calls(monkeypatch)


@pytest.mark.parametrize(
    "settings", [SETTINGS, SETTINGS | {"class_weight": "balanced", "every_row": True, "rule": "bt1"}]
)
def test_the_bits_of_one_machine(data, here, cluster, calls, tmp_path, settings):
    run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, **settings)
    assert models(run.path) == here(settings)
    assert len(data.shards) == len(blocks_of(data.shards)) > 10
    assert {"begin", "of_parts", "where", "put", "multiply", "packed"} <= {name for name, _, _ in calls.sent}


def test_the_bits_of_one_machine_where_rows_are_swept_in_blocks(data, here, cluster, calls, tmp_path, monkeypatch):
    for name, little in {"BASE": 0, "BATCH": 100, "BATCH_FROM_AFAR": 100, "LEAST_WORKING_SET": 100}.items():
        monkeypatch.setattr(budget, name, little)
    starts = []
    monkeypatch.setattr(
        WorkingRows,
        "_runs",
        lambda working, wanted, cut=WorkingRows._runs: starts.append(cut(working, wanted)) or starts[-1],
    )
    expected = here(BLOCKS)
    alone, starts[:] = list(starts), []
    run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, **BLOCKS)
    assert models(run.path) == expected
    assert len(starts) == len(alone) > 0
    assert all(
        np.array_equal(one, other) for both in zip(starts, alone, strict=True) for one, other in zip(*both, strict=True)
    )


def test_the_rows_may_be_solved_for_on_a_worker(data, here, cluster, calls, tmp_path):
    run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, solve_on="worker", **SETTINGS)
    assert models(run.path) == here(SETTINGS)
    assert calls.sent


@pytest.mark.parametrize("call", [0, 3, 40, 70])
def test_a_worker_killed_at_any_call_changes_no_bit(data, here, cluster, calls, tmp_path, call):
    calls.at[call] = lambda: cluster.kill(cluster.workers[0])
    said = []
    run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, listen=said.append, **SETTINGS)
    assert models(run.path) == here(SETTINGS)
    assert len(cluster.workers) == 2
    assert any(isinstance(note, Note) and "is made again" in note.text for note in said)


def test_a_worker_killed_at_work_changes_no_bit(data, here, cluster, tmp_path, monkeypatch):
    """It dies with a task on it, another one between two steps."""
    with Engine(cluster.address) as engine:
        deaths = Deaths(cluster, engine, monkeypatch, task=70)
        run = train_run(engine, data, PathSpec(**SETTINGS), tmp_path / "run", listen=deaths.listen)
    assert models(run.path) == here(SETTINGS)
    assert len(cluster.workers) == 1


def test_a_worker_that_joins_is_no_loss(data, here, cluster, calls, tmp_path):
    calls.at[20] = cluster.add_worker
    said = []
    run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, listen=said.append, **SETTINGS)
    assert models(run.path) == here(SETTINGS)
    assert not any(isinstance(note, Note) for note in said)


@pytest.mark.parametrize("call", [None, 0, 45])
def test_workers_that_are_not_next_door(data, here, cluster, calls, tmp_path, monkeypatch, call):
    """They are sent what others map."""

    def meet(neighbours: Neighbours, *_others) -> None:
        neighbours.all = False

    monkeypatch.setattr(Neighbours, "meet", meet)
    if call is not None:
        calls.at[call] = lambda: cluster.kill(cluster.workers[0])
    run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, **SETTINGS)
    assert models(run.path) == here(SETTINGS)


def test_workers_of_several_threads(data, here, cluster, calls, tmp_path):
    cluster.have_workers(0)
    cluster.add_worker(options=("--nthreads", "3"))
    run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, **SETTINGS)
    assert models(run.path) == here(SETTINGS)
    assert calls.sent
    cluster.have_workers(0)


def test_random_kills(data, here, cluster, calls, tmp_path):
    chance = random.Random(1)

    def kill() -> None:
        cluster.kill(chance.choice(cluster.workers))
        cluster.add_workers(1)

    calls.at = {chance.randrange(200): kill for _ in range(3)}
    run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, **SETTINGS)
    assert models(run.path) == here(SETTINGS)


def test_a_worker_that_is_paused_for_long_is_given_up(data, here, cluster, tmp_path, monkeypatch):
    """Dask gives it nothing to do for want of memory, and what it keeps would never come back."""
    monkeypatch.setattr(kept_module, "SECONDS_PAUSED", 0.5)
    said, admit, paused = [], Cluster.admit, []

    def admitted(backend: Cluster) -> dict[str, str]:
        """Have one of the workers that keep rows paused, from the third step on until it has been given up."""
        found = admit(backend)
        if paused and not told(said):
            backend.known[paused[0]] = backend.known[paused[0]]._replace(status="paused")
        return found

    def listen(event) -> None:
        said.append(event)
        if isinstance(event, StepProgress) and event.done and event.step == 3:
            paused.append(address)

    each = Kept.each

    def slow(kept: Kept, function, *arguments, **more):
        if paused and kept.addresses[0] == paused[0] and not told(said):
            return each(kept, _slowly, *arguments, **more)
        return each(kept, function, *arguments, **more)

    monkeypatch.setattr(Cluster, "admit", admitted)
    monkeypatch.setattr(Kept, "each", slow)
    with Engine(cluster.address) as engine:
        address = sorted(engine.backend.known)[0]
        run = train_run(engine, data, PathSpec(**SETTINGS), tmp_path / "run", listen=listen)
    assert models(run.path) == here(SETTINGS)
    assert told(said)


def told(said: list[Any]) -> bool:
    return any(isinstance(event, Note) and "is paused" in event.text for event in said)


def _slowly(keeper: Keeper, *_arguments: Any) -> list[Any]:
    time.sleep(6)
    return []


def test_losses_that_do_not_end_are_an_error(data, cluster, monkeypatch, tmp_path):
    def lost(*_arguments, **_more):
        raise KeptLostError("a worker that kept rows is gone")

    monkeypatch.setattr(Kept, "each", lost)
    with pytest.raises(EngineError, match=r"lost 8 times in the same step.*; give them more memory, and run the same"):
        fit_path(data, out=tmp_path / "run", scheduler=cluster.address, **SETTINGS)


def test_the_client_goes_on_after_a_break(data, here, cluster, tmp_path):
    """On the cluster after threads, and the other way round."""
    for first, second in (("threads", cluster.address), (cluster.address, "threads")):
        out = tmp_path / first.partition(":")[0]

        def stop(event) -> None:
            if isinstance(event, StepProgress) and event.done and event.step == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit_path(data, out=out, scheduler=first, listen=stop, **SETTINGS)
        assert models(fit_path(data, out=out, scheduler=second, **SETTINGS).path) == here(SETTINGS)


def test_a_call_brings_back_sums_and_the_rows_that_are_solved_for(data, cluster, calls, tmp_path):
    """Beside w: under a kilobyte a block for sums and counts, under 30 bytes for a row solved for, 2 for any row."""
    run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, **SETTINGS)
    blocks, most = len(data.shards), max(step.working_set for step in run.steps)
    solved_for, whole = {"where", "put"}, {"packed", "begin"}
    for name, down, up in calls.sent:
        if name in solved_for:
            assert down + up < 10_000 + 30 * most
        elif name == "packed":
            assert down + up < 10_000 + 2 * data.n_rows
        elif name not in whole:
            assert down + up < 10_000 + 1000 * blocks, name
    per_step = sum(name not in whole | solved_for for name, _, _ in calls.sent) / len(run.steps)
    assert per_step < 14


def test_the_client_holds_no_arrays_by_row(cluster, tmp_path):
    """On one machine they take more than 60 bytes a row: what NumPy has of a length that only all rows have."""
    n = 70_001  # more than a sketch has
    rows = write_shards(tmp_path / "shards", plain_world(n, 3), range(10_000, n, 10_000))
    found = {}

    def listen(event) -> None:
        if isinstance(event, StepProgress) and event.done and event.step == 1:
            assert event.working_set < n
            sizes = [trace.size for trace in tracemalloc.take_snapshot().traces]
            found[scheduler] = sum(size for size in sizes if size in (n, 4 * n, 8 * n))

    for scheduler in ("inline", cluster.address):
        tracemalloc.start()
        try:
            fit_path(rows, out=tmp_path / f"run-{len(found)}", scheduler=scheduler, listen=listen, **FEW_SOLVED_FOR)
        finally:
            tracemalloc.stop()
    assert found["inline"] > 60 * n
    assert found[cluster.address] == 0


def test_arrays_go_with_their_columns(data, cluster):
    with Engine(cluster.address) as engine:
        kept = kept_with_shards(engine, data, PathSpec(), starts_from_others=False)
        rows = with_shards.collect_there(kept, data, PathSpec(), None)
        assert isinstance(rows, ShardState)
        facts = rows.each(_arrays)
        assert set(facts) == {4}
        more = rows.copied(rows.costs)
        assert isinstance(more, Column)
        assert set(rows.each(_arrays)) == {5}
        del more
        assert set(rows.each(_arrays)) == {4}
        with pytest.raises(EngineError, match="read-only"):
            rows.each(_write, rows.costs.frozen())
        rows.release()


def _arrays(part) -> int:
    return len(part.block.arrays)


def _write(part, column) -> None:
    try:
        column[part] = 0.0
    except ValueError as error:
        raise EngineError(str(error)) from error


def test_columns_hold_what_arrays_hold(data, cluster):
    """What is put, read, filled and counted there is what NumPy makes of it here."""
    chance = np.random.default_rng(0)
    with Engine(cluster.address) as engine:
        kept = kept_with_shards(engine, data, PathSpec(), starts_from_others=False)
        rows = with_shards.collect_there(kept, data, PathSpec(), None)
        values, mask = chance.random(data.n_rows), chance.random(data.n_rows) < 0.1
        column = rows.filled(lambda out: np.copyto(out, values))
        chosen = rows.empty(np.bool_)
        rows.put(np.flatnonzero(mask), chosen, np.ones(np.count_nonzero(mask), np.bool_))
        assert rows.count(chosen) == np.count_nonzero(mask)
        numbers, found = rows.where(chosen, column)
        np.testing.assert_array_equal(numbers, np.flatnonzero(mask))
        np.testing.assert_array_equal(found, values[mask])
        rows.put(numbers, column, -found)
        values[mask] *= -1
        whole, both = rows.whole(column, rows.joined(chosen, rows.empty(np.bool_)))
        np.testing.assert_array_equal(whole, values)
        np.testing.assert_array_equal(both, mask)
        nobody = rows.where(rows.empty(np.bool_), column)
        assert [each.size for each in nobody] == [0, 0]
        rows.release()


def test_who_spills_to_disk_forgets():
    keeper = Keeper()
    keeper.thing = [1]
    again = pickle.loads(pickle.dumps(keeper))  # noqa: S301
    with pytest.raises(KeptLostError):
        again.found()


@pytest.mark.parametrize(
    ("settings", "others"), [({"holdout": 0.2}, False), ({"kernel": "rbf", "gamma": 0.1}, False), ({}, True)]
)
def test_others_keep_their_arrays_here(data, cluster, monkeypatch, settings, others):
    with Engine(cluster.address) as engine:
        assert kept_with_shards(engine, data, PathSpec(**settings), others) is None
        assert kept_with_shards(engine, data, PathSpec(), False) is not None
        assert kept_with_shards(Partner(Together(engine), 0, None), data, PathSpec(), False) is None
        monkeypatch.setattr(with_shards, "LEAST_ROWS", data.n_rows + 1)
        assert kept_with_shards(engine, data, PathSpec(), False) is None


def test_workers_without_room_do_not_keep_arrays(data, cluster, monkeypatch):
    monkeypatch.setattr(Kept, "memory", lambda kept, k: 1_000_000)
    with Engine(cluster.address) as engine:
        assert kept_with_shards(engine, data, PathSpec(), False) is None


def test_on_one_machine_arrays_are_here(data):
    for scheduler in ("inline", "threads"):
        with Engine(scheduler) as engine:
            assert kept_with_shards(engine, data, PathSpec(), False) is None
