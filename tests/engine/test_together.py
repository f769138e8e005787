"""Members of one engine: every member gets what it would get alone, passes are shared, and nobody waits for ever."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest

from pipeline.engine import together
from pipeline.engine.engine import Engine
from pipeline.engine.together import Together


@dataclass(frozen=True)
class Piece:
    number: int
    nnz: int = 100_000  # worth sharing


@dataclass(frozen=True)
class View:
    base: Piece
    sign: int

    @property
    def number(self) -> int:
        return self.sign * self.base.number

    @property
    def nnz(self) -> int:
        return self.base.nnz


SHARDS = tuple(Piece(k) for k in range(1, 30))


def times(shard, factor):
    return shard.number * factor


def add(parts):
    return sum(parts)


def joined(parts):
    return "".join(parts)


def text(shard, mark):
    return f"({shard.number}{mark})"


@pytest.fixture(params=["threads", "inline", "processes"])
def engine(request):
    with Engine(request.param, None if request.param == "inline" else 2) as engine:
        yield engine


def counted(engine, monkeypatch):
    """Count the passes that are made."""
    made = []
    for name in ("stream", "reduce"):
        original = getattr(Engine, name)

        def counting(self, function, shards, *rest, original=original, **more):
            made.append(len(shards))
            return original(self, function, shards, *rest, **more)

        monkeypatch.setattr(Engine, name, counting)
    return made


class TestPasses:
    def test_each_member_gets_its_own(self, engine):
        def work(factor):
            def task(member):
                first = list(member.stream(times, SHARDS, factor, window=3))
                second = member.reduce(times, SHARDS, add, factor)
                return first, second, member.reduce(text, SHARDS, joined, str(factor))

            return task

        alone = [work(factor)(engine) for factor in range(5)]
        assert Together(engine).run([work(factor) for factor in range(5)]) == alone

    def test_one_pass_serves_all_that_wait(self, monkeypatch):
        with Engine("threads", 2) as engine:
            made = counted(engine, monkeypatch)
            driver = Together(engine)
            driver.cores = 5

            def task(member):
                found = []
                for turn in range(4):
                    member.meet(turn, None)
                    found.append(sum(member.stream(times, SHARDS, turn)))
                return found

            total = sum(shard.number for shard in SHARDS)
            assert driver.run([task] * 5) == [[turn * total for turn in range(4)]] * 5
        assert len(made) < 5 * 4

    def test_views_of_the_same_shards_share(self, monkeypatch):
        plus, minus = (tuple(View(shard, sign) for shard in SHARDS) for sign in (1, -1))
        with Engine("threads", 2) as engine:
            driver = Together(engine)
            asks = [together._Ask(times, views, (1,)) for views in (plus, minus, plus[1:])]
            assert [len(group) for group in together._alike(asks)] == [2, 1]
            found = driver.run([lambda m, v=views: list(m.stream(times, v, 3)) for views in (plus, minus)])
        assert found == [[sign * 3 * shard.number for shard in SHARDS] for sign in (1, -1)]

    def test_lists_that_only_begin_and_end_alike_do_not_share(self):
        one, two = (SHARDS[0], SHARDS[2], SHARDS[5]), (SHARDS[0], SHARDS[3], SHARDS[5])
        asks = [together._Ask(times, shards, (1,)) for shards in (one, two)]
        assert len(together._alike(asks)) == 2

    def test_a_member_that_stops_reading_holds_nobody_up(self, engine):
        def lazy(member):
            return next(iter(member.stream(times, SHARDS, 1, window=2)))

        def eager(member):
            return sum(member.stream(times, SHARDS, 1, window=2))

        assert Together(engine).run([lazy, eager, lazy]) == [1, sum(s.number for s in SHARDS), 1]


class TestErrors:
    def test_an_error_in_a_pass_is_raised(self, engine):
        def task(member):
            return list(member.stream(broken, SHARDS))

        with pytest.raises(ZeroDivisionError):
            Together(engine).run([task] * 3)

    def test_an_error_of_one_ends_the_others(self):
        with Engine("threads", 2) as engine:

            def fails(member):
                sum(member.stream(times, SHARDS, 1))
                raise ValueError("mine")

            def goes_on(member):
                while True:
                    sum(member.stream(times, SHARDS, 1))

            with pytest.raises(ValueError, match="mine"):
                Together(engine).run([goes_on, fails, goes_on])

    def test_who_waits_for_one_that_failed_ends(self):
        with Engine("threads", 2) as engine:

            def fails(member):
                raise ValueError("mine")

            with pytest.raises(ValueError, match="mine"):
                Together(engine).run([lambda member: member.meet(0, 1), fails])

    def test_an_interruption_of_the_driver_ends_all(self, monkeypatch):
        with Engine("threads", 2) as engine:
            driver = Together(engine)

            def interrupted(group):
                raise KeyboardInterrupt

            monkeypatch.setattr(driver, "_pass", interrupted)
            with pytest.raises(KeyboardInterrupt):
                driver.run([lambda member: list(member.stream(times, SHARDS, 1))] * 3)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("svmsieve-member")]


def broken(shard):
    return 1 // (shard.number - 7)


class TestMeetings:
    def test_all_hear_what_all_say(self):
        with Engine("threads", 2) as engine:

            def task(k):
                def work(member):
                    heard = []
                    for place in range(20):
                        if (k + place) % 3 == 0:
                            sum(member.stream(times, SHARDS, 1))
                        heard.append(member.meet(place, (place, k)))
                    return heard

                return work

            found = Together(engine).run([task(k) for k in range(7)])
        assert found == [[[(place, k) for k in range(7)] for place in range(20)]] * 7

    def test_alone_one_hears_oneself(self):
        with Engine("inline") as engine:
            assert engine.meet(3, "here") == ["here"]


def test_at_most_as_many_compute_as_there_are_cores():
    with Engine("threads", 2) as engine:
        driver, lock, now, most = Together(engine), threading.Lock(), 0, 0
        driver.cores = 2

        def task(member):
            nonlocal now, most
            for _ in range(5):
                with lock:
                    now += 1
                    most = max(most, now)
                np.linalg.norm(np.random.default_rng(0).normal(size=(300, 300)), 2)
                with lock:
                    now -= 1
                sum(member.stream(times, SHARDS, 1))

        driver.run([task] * 6)
    assert most <= 2
