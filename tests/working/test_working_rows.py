"""The rows being solved for: what is held, cut and visited, against dense NumPy; and models on disk."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.maths import csr
from pipeline.runs.model_file import StoredModel, write_model
from pipeline.spec import PathSpec
from pipeline.working import rows
from pipeline.working.facts import collect
from pipeline.working.held import HELD_ROW_BYTES, among, resized
from pipeline.working.host import LocalHost
from pipeline.working.rows import WorkingRows
from tests.worlds import World, plain_world, write_shards

N, D = 60, 9


def sparse_world(wide: bool) -> World:
    world = plain_world(N, D)
    x = world.x * (np.random.default_rng(1).random((N, D)) < 0.5)
    x[5] = 0.0
    return World(x if wide else x.astype(np.float32).astype(np.float64), world.y, world.costs)


@pytest.fixture(scope="module", params=["float32", "float64"])
def setting(request, tmp_path_factory):
    """A world, a new host of its rows, and their facts."""
    world = sparse_world(request.param == "float64")
    data = write_shards(tmp_path_factory.mktemp("rows") / "shards", world, [11, 12, 40])
    with Engine("inline") as engine:
        state = collect(engine, data, PathSpec(), None)
        assert state.wide == (request.param == "float64")
        yield world, partial(LocalHost, engine, data, state.wide), state


def check_held(world: World, working: WorkingRows) -> None:
    np.testing.assert_array_equal(working.host.matrix().toarray(), world.z[working.rows])
    np.testing.assert_allclose(working.host.norms, np.linalg.norm(world.z[working.rows], axis=1), rtol=1e-12)
    coefficients = np.arange(1.0, working.rows.size + 1)
    out = np.ones(D)
    working.add_to(out, coefficients)
    np.testing.assert_allclose(out, 1 + coefficients @ world.z[working.rows], atol=1e-12)


@settings(max_examples=40)
@given(masks=st.lists(st.tuples(st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])), max_size=6))
def test_hold_is_exactly_what_was_asked_for(setting, masks):
    world, new_host, arrays = setting
    working = WorkingRows(new_host(), arrays, limit=10**9)
    check_held(world, working)
    for seed, share in masks:
        wanted = np.random.default_rng(seed).random(N) < share
        before, held = working.host.read, working.rows
        working.hold(wanted)
        np.testing.assert_array_equal(working.rows, np.flatnonzero(wanted))
        check_held(world, working)
        new = np.count_nonzero(world.z[np.setdiff1d(working.rows, held)])
        assert working.host.read - before in (new, np.count_nonzero(world.z[wanted]))
    working.release()
    check_held(world, working)


def test_an_exchange_that_fails_leaves_no_rows(setting, monkeypatch):
    """Of which some were others by then: whoever asks again gets what was asked for."""
    world, new_host, arrays = setting
    working = WorkingRows(new_host(), arrays, limit=10**9)
    first, then = (np.isin(np.arange(N), some) for some in (range(20), range(2, 22)))
    working.hold(first)

    def full(*_):
        raise MemoryError

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(csr, "insert_rows", full)
        working.hold(then)
    for wanted in (first, then):
        working.hold(wanted)
        check_held(world, working)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("size", [0, 3, 5, 9])
def test_what_others_have_stays_as_it_was(size, dtype, shared):
    """An array is changed in place only where nobody else has it, nor a part of it; else it is another one."""
    arrays = [np.arange(5, dtype=np.int32)]
    others = [arrays[0][1:4], arrays[0]] if shared else []
    found = resized(arrays, size, dtype)
    assert (arrays, found.size, found.dtype) == ([], size, dtype)
    kept = min(size, 5)
    np.testing.assert_array_equal(found[:kept], np.arange(kept))
    found[:] = -1
    if shared and size != 5:
        np.testing.assert_array_equal(others[0], [1, 2, 3])
        np.testing.assert_array_equal(others[1], np.arange(5))


@given(
    seed=st.integers(0, 2**32),
    share=st.sampled_from([0.0, 0.2, 1.0]),
    limit=st.sampled_from([1, 200, 1000, 10**6]),
    shuffled=st.booleans(),
)
def test_blocks_cover_a_mask_and_fit(setting, seed, share, limit, shuffled):
    world, new_host, arrays = setting
    working = WorkingRows(new_host(), arrays, limit)
    wanted = np.random.default_rng(seed).random(N) < share
    blocks = list(working.blocks(wanted, np.random.default_rng(seed) if shuffled else None))
    np.testing.assert_array_equal(np.sum(blocks, axis=0) if blocks else np.zeros(N), wanted)
    for block in blocks:
        assert working.fits(block) or np.count_nonzero(block) == 1
        entry = 12 if arrays.wide else 8
        size = entry * np.count_nonzero(world.z[block]) + HELD_ROW_BYTES * np.count_nonzero(block)
        assert working.fits(block) == (size <= limit)
        working.hold(block)
        assert working.host.bytes == size
    order = [int(row) for block in blocks for row in np.flatnonzero(block)]
    assert shuffled or order == sorted(order)


def test_shuffled_blocks_are_others_each_time(setting):
    _, new_host, arrays = setting
    working, all_rows = WorkingRows(new_host(), arrays, 600), np.ones(N, np.bool_)
    order = np.random.default_rng(0)
    first, second = (np.array(list(working.blocks(all_rows, order))) for _ in range(2))
    again = np.array(list(working.blocks(all_rows, np.random.default_rng(0))))
    np.testing.assert_array_equal(first, again)
    together = [{tuple(np.flatnonzero(block)) for block in blocks} for blocks in (first, second)]
    assert len(together[0]) > 8
    assert not together[0] & together[1]


@given(pieces=st.integers(2, 30), seed=st.integers(0, 2**32))
def test_a_run_is_rows_that_are_neighbours(setting, pieces, seed):
    """Blocks are read from disk in few long pieces, as many as a block has runs."""
    _, new_host, arrays = setting
    total = WorkingRows(new_host(), arrays, 0)._runs(np.ones(N, np.bool_))[1].sum()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "RUNS_A_BLOCK", 2)
        working = WorkingRows(new_host(), arrays, int(total) // pieces)
        for block in working.blocks(np.ones(N, np.bool_), np.random.default_rng(seed)):
            starts = np.flatnonzero(np.diff(block.astype(np.int8), prepend=0) == 1)
            assert starts.size <= 3, "two runs, or a third where one is short"


@given(seed=st.integers(0, 2**32), held=st.sampled_from([0.0, 0.3]), limit=st.sampled_from([200, 1000, 3000, 10**6]))
def test_visit_covers_a_mask_whatever_is_held(setting, seed, held, limit):
    world, new_host, arrays = setting
    rng = np.random.default_rng(seed)
    working = WorkingRows(new_host(), arrays, limit)
    first = rng.random(N) < held
    first &= working.fits(first)
    working.hold(first)
    wanted = rng.random(N) < 0.4
    together = working.fits(first | wanted)
    total, seen = np.zeros(D), np.zeros(N, int)
    for held_now, places, mine in working.visit(wanted, np.arange(N)):
        np.testing.assert_array_equal(held_now, working.rows)
        np.testing.assert_array_equal(held_now[places], mine)
        assert wanted[mine].all()
        check_held(world, working)
        seen[mine] += 1
        coefficients = np.zeros(held_now.size)
        coefficients[places] = 1.0
        working.add_to(total, coefficients)
    np.testing.assert_array_equal(seen, wanted)
    if together:  # what was held is still there for the next step
        np.testing.assert_array_equal(working.rows, np.flatnonzero(first | wanted))
    np.testing.assert_allclose(total, world.z[wanted].sum(axis=0), atol=1e-12)


@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([0, 1, 7, 8, 9, 100, (1 << 16) + 3]),
    d=st.integers(0, 20),
    apart=st.booleans(),
)
@settings(max_examples=30)
def test_a_model_comes_back_as_it_was(tmp_path_factory, seed, n, d, apart):
    rng = np.random.default_rng(seed)
    w, alpha = (rng.standard_normal(k) * (rng.random(k) < 0.5) for k in (d, n))
    w_alpha = rng.standard_normal(d) if apart else None
    verdicts = rng.integers(0, 3, n).astype(np.int8)
    folder = tmp_path_factory.mktemp("model")
    paths = [folder / "one.npz", folder / "two.npz"]
    for path in paths:
        write_model(path, 0.1, w, alpha, verdicts, w_alpha, sync=False)
    stored = StoredModel(paths[0])
    assert stored.is_whole()
    assert stored.c == 0.1
    for found, expected in ((stored.w(), w), (stored.alpha(), alpha), (stored.verdicts(), verdicts)):
        np.testing.assert_array_equal(found, expected)
    longer = np.full(n + 2, np.nan)
    stored.alpha(longer)
    np.testing.assert_array_equal(longer, [*alpha, 0.0, 0.0])
    assert (stored.w_alpha() is None) == (not apart)
    if apart:
        np.testing.assert_array_equal(stored.w_alpha(), w_alpha)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with np.load(paths[0], allow_pickle=False) as plain:
        assert {"c", "n_features", "w_index", "w_value", "alpha_index", "alpha_value"} <= set(plain)
        assert np.all(plain["alpha_value"] != 0)


def test_a_damaged_model_says_so(tmp_path):
    path = tmp_path / "000000.npz"
    write_model(path, 1.0, np.ones(3), np.ones(4), np.zeros(4, np.int8))
    whole = path.read_bytes()
    for damaged in (whole[:-30], b"", whole.replace(b"alpha_value", b"alpha_valux")):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"000000.npz: the model is missing or damaged .*; train again"):
            StoredModel(path).alpha()


@given(st.lists(st.integers(0, 30), unique=True).map(sorted), st.lists(st.integers(0, 30), unique=True).map(sorted))
def test_numbers_among_others(some, rows):
    found = among(np.array(some, np.int64), np.array(rows, np.int64))
    assert found.tolist() == [number in rows for number in some]
