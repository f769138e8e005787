"""Which rows are left out: today's split to the bit, stratified parts of equal size, other parts for another seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pipeline
from pipeline.data.shards.digest import row_hashes
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, SpecError
from pipeline.spec import PathSpec
from pipeline.verify import split as verified
from pipeline.working.facts import collect
from pipeline.working.split import seeded, split_of
from tests.tampering import change_header, found, reseal
from tests.worlds import World, plain_world, write_shards

HASHES = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1), st.integers(2**64 - 3, 2**64 - 1))


def made(n: int = 40) -> World:
    """Rows that are the same on every machine."""
    i = np.arange(n)
    x = np.stack([(i * 7 % 11) - 5.0, (i * 5 % 13) / 4, (i * 3 % 4 == 0) * 1.5], axis=1)
    return World(x, np.where(i * i % 7 < 3, 1.0, -1.0), np.where(i % 9 == 0, 2.0, 1.0))


def left_out(data, scratch=None, scheduler="inline", **settings) -> np.ndarray:
    with Engine(scheduler, 2) as engine:
        return collect(engine, data, PathSpec(**settings), scratch).costs == 0


def folds_of(data, folds=5, **settings) -> np.ndarray:
    out = np.stack([left_out(data, fold=(k, folds), **settings) for k in range(folds)])
    assert (out.sum(axis=0) == 1).all()
    return np.argmax(out, axis=0)


def test_the_split_of_old_runs(tmp_path):
    """As it was before there were seeds and strata, row by row: such runs are verified, and go on."""
    data = write_shards(tmp_path / "data", made(), [16])
    assert "".join(map(str, folds_of(data))) == "1420230312010032424411304332042304042003"
    assert "".join(".x"[int(out)] for out in left_out(data, holdout=0.3)) == "x..x..x...xxxx......xx.x....x...x.x..xx."
    assert PathSpec.from_json({"holdout": 0.3}) == PathSpec(holdout=0.3, stratified=False, seed=0)


@pytest.mark.parametrize("stratified", [False, True])
def test_another_seed_makes_other_folds(tmp_path, stratified):
    data = write_shards(tmp_path / "data", plain_world(400))
    one, two, three = (folds_of(data, stratified=stratified, seed=seed) for seed in (0, 1, 2**40))
    for other in (two, three):
        assert np.mean(one == other) == pytest.approx(0.2, abs=0.08)
    assert np.mean(two == three) == pytest.approx(0.2, abs=0.08)


@pytest.mark.parametrize("folds", [2, 5, 7])
def test_stratified_folds_are_equally_large(tmp_path, folds):
    world = plain_world(403)
    data = write_shards(tmp_path / "data", world, [100])
    found = folds_of(data, folds, stratified=True)
    for y in (-1, 1):
        counts = np.bincount(found[world.y == y], minlength=folds)
        assert counts.max() - counts.min() <= 1


def test_a_stratified_hold_out(tmp_path):
    world = plain_world(403)
    data = write_shards(tmp_path / "data", world, [100])
    out = left_out(data, holdout=0.3, stratified=True)
    for y in (-1, 1):
        assert np.count_nonzero(out[world.y == y]) == pytest.approx(0.3 * np.count_nonzero(world.y == y), abs=0.5)


def test_a_rare_class_is_in_every_fold(tmp_path):
    world = plain_world(300)
    rare = World(world.x, np.where(np.arange(300) % 60 == 0, 1.0, -1.0), world.costs)
    found = folds_of(write_shards(tmp_path / "data", rare), stratified=True)
    assert sorted(found[rare.y == 1]) == [0, 1, 2, 3, 4]


def test_shards_order_scratch_files_and_schedulers_do_not_matter(tmp_path):
    world, order = plain_world(500), np.random.default_rng(0).permutation(500)
    one = write_shards(tmp_path / "one", world)
    two = write_shards(tmp_path / "two", world.rows(order), [3, 170, 260])
    settings = {"stratified": True, "seed": 7}
    first = folds_of(one, **settings)
    np.testing.assert_array_equal(folds_of(two, **settings), first[order])
    np.testing.assert_array_equal(folds_of(two, scratch=tmp_path, **settings), first[order])
    np.testing.assert_array_equal(folds_of(two, scheduler="threads", **settings), first[order])
    np.testing.assert_array_equal(left_out(two, scheduler="processes", fold=(2, 5), **settings), (first == 2)[order])


@example([(2**64 - 1, 1)], 2, 0, 0.97)
@given(
    st.lists(st.tuples(HASHES, st.sampled_from([-1, 1])), min_size=1, max_size=60),
    st.integers(2, 8),
    st.sampled_from([0, 1, 2**63 - 1]),
    st.sampled_from([None, 0.1, 0.5, 0.97]),
)
def test_parts_of_equal_size_and_equal_rows_together(rows, parts, seed, holdout):
    """A part is off its size by no more than the largest set of equal rows; the verifier's parts are the same."""
    hashes, labels = np.array([h for h, _ in rows], np.uint64), np.array([y for _, y in rows], np.int8)
    for k in range(parts) if holdout is None else [0]:
        fold = (k, parts) if holdout is None else None
        spec = PathSpec(fold=fold, holdout=holdout or 0.0, stratified=True, seed=seed)
        mixed = seeded(hashes, seed)
        cut = [slice(0, hashes.size // 2), slice(hashes.size // 2, hashes.size)]
        out = split_of(spec, mixed, labels, lambda kind: np.empty(hashes.size, kind), cut).left_out(mixed, labels)
        np.testing.assert_array_equal(out, verified.left_out(hashes, labels, spec))
        share = 1 / parts if holdout is None else holdout
        for y in (-1, 1):
            sets = Counter(hashes[labels == y].tolist())
            if not sets:
                continue
            assert len({(h, o) for h, o in zip(hashes[labels == y], out[labels == y], strict=True)}) == len(sets)
            size = np.count_nonzero(out & (labels == y))
            assert abs(size - share * sets.total()) <= max(sets.values())
            if len(sets) >= (parts if holdout is None else 2):
                assert 0 < size < sets.total()


def test_folds_that_cannot_be(tmp_path):
    few = World(np.ones((20, 1)), np.where(np.arange(20) < 10, 1.0, -1.0), np.ones(20))
    with pytest.raises(DataError, match="a class has 1 different rows, too few for 2 stratified folds"):
        pipeline.fit_path(write_shards(tmp_path / "few", few), grid=[1.0], cv=2, stratified=True, scheduler="inline")
    two = World(np.arange(20.0)[:, None] // 5 + 1, few.y, few.costs)
    with pytest.raises(DataError, match="a class has 2 different rows, too few for 3 stratified folds"):
        pipeline.fit_path(write_shards(tmp_path / "two", two), grid=[1.0], cv=3, stratified=True, scheduler="inline")
    for wrong in (-1, 2**63, 0.5, True, "1"):
        with pytest.raises(SpecError, match="seed must be a whole number from 0"):
            PathSpec(seed=wrong)
    with pytest.raises(SpecError, match="stratified must be True or False"):
        PathSpec(stratified=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("data") / "shards", plain_world(300), [120])


@pytest.fixture
def run(data, tmp_path):
    settings = {"stratified": True, "seed": 3, "holdout": 0.3, "select": "log_loss"}
    return pipeline.fit_path(data, out=tmp_path / "run", grid=[0.01, 1.0], scheduler="inline", **settings).path


def test_a_seeded_stratified_run_verifies(data, run):
    assert all(finding.holds for finding in found(run, data))


@pytest.mark.parametrize("change", [{"seed": 4}, {"seed": 0}, {"stratified": False}, {"holdout": 0.31}])
def test_another_split_than_the_runs_is_found(data, run, change):
    spec = pipeline.open_run(run).spec.to_json() | change
    change_header(run, spec=spec)
    reseal(run)
    problems = [finding.problem for finding in found(run, data)]
    assert all(problems)


def test_cross_validation_with_stratified_folds(data, tmp_path):
    folder = tmp_path / "run"
    settings = {"grid": [0.01, 1.0], "cv": 3, "stratified": True, "seed": 9, "select": "log_loss"}
    run = pipeline.fit_path(data, out=folder, scheduler="inline", **settings)
    assert all(finding.holds for finding in found(folder, data))
    losses = [step["log_loss"] for step in run.header.cv_scores]
    assert run.best.step == int(np.argmin(losses))
    rows = [pipeline.open_run(folder / "folds" / str(k)).steps[0].n_rows for k in range(3)]
    assert max(rows) - min(rows) <= 2


def test_hashes_are_those_of_the_rows(data):
    hashes = np.concatenate([row_hashes(shard.load()) for shard in data.shards])
    np.testing.assert_array_equal(seeded(hashes, 0), hashes)
    assert len(set(seeded(hashes, 5).tolist())) == len(set(hashes.tolist()))
