"""A user's Dask graph: where it is computed, in which order results come, and what is said of what it raises."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import dask
import pytest
from distributed import KilledWorker

from pipeline.engine.delayed import computed
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, EngineError


@dask.delayed
def square(k):
    return k * k


@dask.delayed
def fails(error):
    raise error


@pytest.mark.parametrize("scheduler", ["inline", "threads"])
def test_results_are_in_order_and_told_as_they_come(scheduler):
    told = []
    with Engine(scheduler) as engine:
        found = computed([square(k) for k in range(20)], engine.backend, told.append)
    assert found == [k * k for k in range(20)]
    assert sorted(told) == found


def test_inline_is_this_thread_and_threads_are_as_many_as_the_engine_has():
    name = dask.delayed(lambda k: threading.current_thread().name)
    with Engine("inline") as engine:
        assert set(computed([name(k) for k in range(5)], engine.backend)) == {threading.current_thread().name}
    with Engine("threads", 1) as engine:
        assert len(set(computed([name(k) for k in range(5)], engine.backend))) == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyError("there is no such thing"), r"cannot be computed \(KeyError: 'there is no such thing'\); see that"),
        (ModuleNotFoundError("No module named 'secret'"), "a worker cannot import what it needs .*'secret'.*; install"),
        (
            KilledWorker("write-0", SimpleNamespace(address="tls://10.0.0.7:1"), 3),
            "a partition took worker after worker with it .*; make the partitions",
        ),
        (MemoryError(), "cannot be computed"),
    ],
)
def test_what_it_raises_is_one_line_with_the_error_behind_it(error, expected):
    with Engine("inline") as engine, pytest.raises(EngineError, match=expected) as caught:
        computed([square(2), fails(error)], engine.backend)
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def test_our_own_errors_stay_as_they_are():
    with Engine("threads") as engine, pytest.raises(DataError, match="x, row 3: so it is"):
        computed([fails(DataError("so it is", path="x", row=3))], engine.backend)
