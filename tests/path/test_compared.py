"""The benchmark against LIBLINEAR: within a time limit, the C that are compared stand for the whole path."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from tests.bench import path as bench
from tests.bench.path import Answers, ask, spread

STEPS = [SimpleNamespace(c=float(k), dual=1.0, seconds={"total": 0.5}) for k in range(1, 101)]


class Peer:
    """Takes two seconds a C, by a clock of its own, and does not arrive above ``last``."""

    def __init__(self, monkeypatch, last=math.inf):
        self.now, self.last, self.asked = 0.0, last, []
        monkeypatch.setattr(bench.time, "perf_counter", lambda: self.now)

    def seconds(self, c, dual, tol):
        self.now += 2.0
        self.asked.append(c)
        return 2.0 if c <= self.last else math.inf


@pytest.mark.parametrize("count", [0, 1, 2, 3, 64, 100])
def test_all_are_taken_once(count):
    assert sorted(spread(count)) == list(range(count))


@pytest.mark.parametrize("some", [4, 9, 25, 60])
def test_some_are_spread_over_all(some):
    taken = sorted(spread(100)[:some])
    gaps = [b - a for a, b in zip(taken, [*taken[1:], 100], strict=True)]
    assert max(gaps) <= 4 * 100 / some


def test_without_a_limit_every_c_is_compared(monkeypatch):
    found = ask(Peer(monkeypatch), STEPS, 1e-4, math.inf, stop=False)
    assert len(found.at) == len(found.arrived) == 100
    assert (sum(found.arrived.values()), found.ours(STEPS)) == (200.0, 50.0)


def test_no_c_is_begun_after_the_limit(monkeypatch):
    peer = Peer(monkeypatch)
    found = ask(peer, STEPS, 1e-4, 19.0, stop=False)
    assert len(found.at) == len(peer.asked) == 10  # the tenth is begun at 18 s
    assert found.ours(STEPS) == 5.0
    assert min(found.at) <= 10
    assert max(found.at) >= 90


def test_where_it_does_not_arrive_neither_side_counts(monkeypatch):
    found = ask(Peer(monkeypatch, last=60.0), STEPS, 1e-4, math.inf, stop=False)
    assert (len(found.at), len(found.arrived), found.ours(STEPS)) == (100, 60, 30.0)


def test_above_a_c_where_it_does_not_arrive_it_may_be_left_in_peace(monkeypatch):
    peer = Peer(monkeypatch, last=60.0)
    found = ask(peer, STEPS, 1e-4, math.inf, stop=True)
    assert (len(found.at), len(found.arrived), found.ours(STEPS)) == (100, 60, 30.0)
    assert len([c for c in peer.asked if c > 60]) <= 6


def test_of_several_rounds_the_quickest_counts_at_each_c():
    one, other = Answers({1.0: 3.0, 2.0: math.inf, 3.0: 1.0}), Answers({1.0: 2.0, 2.0: 5.0, 4.0: 1.0})
    assert one.quickest(other) == Answers({1.0: 2.0, 2.0: 5.0, 3.0: 1.0})
    assert one.quickest(Answers()) == one
