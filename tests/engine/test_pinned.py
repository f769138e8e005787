"""An object on one worker: kept from call to call, built again elsewhere when that worker dies, gone with its owner."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.engine import pinned as pinned_module
from pipeline.engine.engine import Engine
from pipeline.engine.pinned import Here
from pipeline.errors import BudgetError, DataError, EngineError, SpecError
from tests.clusters import real_cluster, until


@pytest.fixture
def cluster(cluster, watcher):
    """The same, and the scheduler knows both."""
    cluster.show_workers(2, watcher)
    return cluster


@pytest.fixture
def pinned(cluster):
    with Engine(cluster.address, solve_on="worker") as engine:
        engine.pinned.reserve(1)
        yield engine.pinned


class Kept:
    """Counts its calls."""

    def __init__(self, here: Here) -> None:
        self.threads, self.calls = here.threads, 0

    def call(self, *arguments):
        self.calls += 1
        return self.calls, self.threads, os.getpid(), arguments


def kept_here() -> int:
    return sum(isinstance(one, Kept) for one in gc.get_objects())


def once(kept: Kept, marker: str, event: Callable[[], None]):
    """Let something happen, the first time only."""
    if not Path(marker).exists():
        Path(marker).touch()
        event()
    return kept.call()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_out_of_memory() -> None:
    raise MemoryError


def read_bad_data() -> None:
    raise DataError("bad value", path="rows.svm", row=12, unit="line")


def always(kept: Kept, event: Callable[[], None]) -> None:
    event()


def test_the_object_stays_where_it_is_until_it_is_released(watcher, pinned):
    w = np.linspace(0, 1, 5)
    calls = [pinned.call(Kept, Kept.call, w, "text") for _ in range(3)]
    assert [call[:2] for call in calls] == [(1, 1), (2, 1), (3, 1)]
    assert len({call[2] for call in calls}) == 1
    assert calls[0][2] in watcher.run(os.getpid).values()
    np.testing.assert_array_equal(calls[0][3][0], w)
    assert calls[0][3][1] == "text"
    assert sum(watcher.run(kept_here).values()) == 1
    pinned.release()
    until(lambda: not any(watcher.run(kept_here).values()))
    assert pinned.call(Kept, Kept.call)[0] == 1


def test_it_goes_with_its_client(watcher, pinned):
    pinned.call(Kept, Kept.call)
    pinned.client.close()
    until(lambda: not any(watcher.run(kept_here).values()))


@pytest.mark.parametrize("event", [run_out_of_memory, die])
def test_a_lost_call_is_repeated_on_another_worker(pinned, tmp_path, event):
    _, _, first, _ = pinned.call(Kept, Kept.call)
    calls, _, second, _ = pinned.call(Kept, once, str(tmp_path / "lost"), event)
    assert calls == 1, "built anew"
    assert second != first
    assert pinned.call(Kept, Kept.call) == (2, 1, second, ())


def test_a_worker_lost_between_calls_is_noticed(pinned):
    _, _, first, _ = pinned.call(Kept, Kept.call)
    os.kill(first, signal.SIGKILL)
    calls, _, second, _ = pinned.call(Kept, Kept.call, np.ones(3))
    assert calls == 1
    assert second != first


@pytest.mark.parametrize("event", [run_out_of_memory, die])
def test_attempts_end(pinned, monkeypatch, event):
    monkeypatch.setattr(pinned_module, "MOST_ATTEMPTS", 2)
    with pytest.raises(
        EngineError, match=r"lost 2 times in a row, last tls://.*; give workers more memory, or"
    ) as caught:
        pinned.call(Kept, always, event)
    assert "\n" not in str(caught.value)


def test_an_error_of_the_function_arrives_and_is_not_repeated(pinned, tmp_path):
    marker = str(tmp_path / "read")
    with pytest.raises(DataError) as caught:
        pinned.call(Kept, once, marker, read_bad_data)
    assert (caught.value.path, caught.value.row) == ("rows.svm", 12)
    assert str(caught.value) == f"on worker {pinned.address}: rows.svm, line 12: bad value"
    assert pinned.call(Kept, once, marker, read_bad_data)[0] == 1


def test_the_largest_worker_that_was_not_lost_is_chosen(pinned, monkeypatch):
    monkeypatch.setattr(pinned, "_workers", lambda: {"a": 1000, "b": 3000, "c": 2000, "d": 3000})
    pinned.reserve(600)
    assert pinned.address == "d"
    assert pinned._choose({"d"}, 0.0) == "b"
    assert pinned._choose({"b", "d"}, 0.0) == "c"
    pinned.reserve(1800)
    assert pinned._choose({"b", "d"}, 0.0) == "d"
    with pytest.raises(
        BudgetError, match=r"may take 2,000,000 MB, but the largest can give 0 MB \(60% of its limit\); lower"
    ):
        pinned.reserve(2 * 10**12)
    monkeypatch.setattr(pinned, "_workers", lambda: {"a": 1000, "without a limit": 0})
    pinned.reserve(2 * 10**12)
    assert pinned.address == "without a limit"


def test_a_worker_that_is_on_its_way_is_waited_for(pinned, monkeypatch):
    come = time.monotonic() + 0.3
    monkeypatch.setattr(pinned, "_workers", lambda: {"late": 0} if time.monotonic() > come else {})
    assert pinned._choose(set(), 60.0) == "late"


def test_a_lost_scheduler_is_one_line(tmp_path, nursery):
    with real_cluster(tmp_path, workers=1, nursery=nursery) as running:
        engine = Engine(running.address, solve_on="worker")
        engine.pinned.reserve(1)
        assert engine.pinned.call(Kept, Kept.call)[0] == 1
    with (
        engine,
        pytest.raises(EngineError, match=r"is gone; start it|lost all its workers \(.*; start some"),
    ):
        engine.pinned.call(Kept, Kept.call)


@pytest.mark.parametrize("scheduler", ["threads", "processes", "inline"])
def test_only_a_cluster_has_a_worker_to_solve_on(scheduler):
    with pytest.raises(SpecError, match=f"{scheduler} has no worker to solve on; give --scheduler an address"):
        Engine(scheduler, solve_on="worker")


def test_there_are_two_places_to_solve():
    with pytest.raises(SpecError, match="unknown place to solve 'there'; there are client, worker"):
        Engine("inline", solve_on="there")
