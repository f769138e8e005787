"""A model as the reference of other work: other C, other data, other costs. Always safe, never taken for more."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC

import pipeline
from pipeline.data.shards.sequence import DigestSequence
from pipeline.engine.engine import Engine
from pipeline.errors import SolverError, SpecError
from pipeline.events import StepProgress
from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.path import linear
from pipeline.path.reference import carried_pair, same_rows
from pipeline.runs.directory import open_run
from pipeline.spec import RULES, PathSpec
from pipeline.use.screen import screen_to, screening
from pipeline.use.survivors import survivors_to
from pipeline.verify.trained_rows import trained_rows
from pipeline.verify.verify import verify
from tests.tampering import at, change_model, change_step, found
from tests.trained import command
from tests.worlds import World, check_run, check_verdicts, plain_world, write_shards


def trained(folder, world, grid, **settings):
    """Return the data in shards and a run on them."""
    data = write_shards(folder, world, [len(world.y) // 3, len(world.y) // 2])
    return data, pipeline.fit_path(data, grid=grid, scheduler="inline", **settings)


def joined(one: World, two: World) -> World:
    return World(*(np.concatenate([getattr(w, key) for w in (one, two)]) for key in ("x", "y", "costs")))


WORLD = plain_world()
COSTS = np.random.default_rng(5).uniform(0.2, 4.0, 120)
CHANGED = {
    "the same": WORLD,
    "appended": joined(WORLD, plain_world(40, seed=7)),
    "removed": WORLD.rows(np.arange(90)),
    "shuffled": WORLD.rows(np.random.default_rng(3).permutation(120)),
    "other costs": WORLD.weighed(COSTS),
    "other data": plain_world(60, seed=9),
    "more features": World(np.column_stack([WORLD.x, plain_world(120, 3, seed=4).x]), WORLD.y, WORLD.costs),
    "fewer features": World(WORLD.x[:, :5], WORLD.y, WORLD.costs),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("changed", CHANGED)
def test_train_from_another_model(tmp_path, changed, rule):
    """From a lower, the same and a higher C, and from other data: certificates hold and verdicts are safe."""
    _, old = trained(tmp_path / "old", WORLD, [0.05, 1.0], tol=1e-2)
    data = write_shards(tmp_path / "new", CHANGED[changed], [20])
    for c, reference in ((0.06, old.steps[0]), (0.9, old.steps[1]), (1.0, old.steps[1]), (0.04, old.steps[1])):
        run = pipeline.fit_path(data, grid=[c], rule=rule, reference=reference, scheduler="inline")
        assert run.steps[0].c_ref == reference.c
        check_run(CHANGED[changed], run)


@pytest.mark.parametrize(
    ("rows", "cuts", "expected"),
    [
        (slice(0, 160), [40, 60, 80, 100, 120], [(0, 0, 40), (40, 40, 20), (60, 60, 20), (80, 80, 20), (100, 100, 20)]),
        (slice(0, 160), [40, 100], [(0, 0, 40), (40, 40, 60), (100, 100, 20)]),
        (slice(0, 160), [], [(0, 0, 120)]),
        (slice(40, 160), [40], [(0, 40, 40), (40, 80, 40)]),
        (slice(60, 120), [], [(0, 60, 60)]),
        (slice(50, 160), [50], []),
        (slice(120, 160), [], []),
    ],
    ids=["appended", "merged", "all merged", "retired and merged", "fewer", "cut elsewhere", "others"],
)
def test_rows_are_known_again_after_appends_have_merged_their_shards(tmp_path, rows, cuts, expected):
    world = joined(WORLD, plain_world(40, seed=7))
    old = write_shards(tmp_path / "old", world.rows(np.arange(120)), [40, 60, 80, 100])
    data = write_shards(tmp_path / "new", world.rows(np.arange(160)[rows]), cuts)
    known = DigestSequence([(shard.digest, shard.n_rows) for shard in old.shards])
    assert list(same_rows(known, data)) == expected


def test_a_path_names_the_run_to_start_from(tmp_path):
    data, old = trained(tmp_path / "old", WORLD, [0.05, 1.0])
    found = [
        pipeline.fit_path(data, grid=[0.9], reference=each, scheduler="inline")
        for each in (old, old.steps, old.path, str(old.path))
    ]
    assert {run.steps[0].c_ref for run in found} == {1.0}


@pytest.mark.attack
@pytest.mark.parametrize("wrong", [3, [3], {}, np.zeros(3), ["run"], [None], b"run", (0.5, "x" * 5000)])
def test_what_is_no_reference_is_said_in_a_line(wrong):
    with pytest.raises(SpecError, match="reference is a step, a run, its path, or a list of steps, not") as said:
        pipeline.fit_path(WORLD.x, WORLD.y, grid=[0.9], reference=wrong)
    assert len(str(said.value)) < 150


@pytest.mark.attack
def test_an_epsilon_that_rounding_does_not_allow_is_named(tmp_path):
    with pytest.raises(SolverError, match=r"leads to no next C that epsilon = 1e-12 allows .* use a larger --epsilon"):
        pipeline.fit_path(WORLD.x, WORLD.y, epsilon=1e-12, c_max=100.0, scheduler="inline")


@pytest.mark.parametrize("settings", [{"class_weight": (0.3, 2.0)}, {"holdout": 0.3}, {"class_weight": "balanced"}])
def test_train_from_a_model_with_other_costs(tmp_path, settings):
    data, plain = trained(tmp_path / "data", WORLD, [0.5])
    run = pipeline.fit_path(data, grid=[0.5, 0.6], reference=plain.steps[0], scheduler="inline", **settings)
    with Engine("inline") as engine:
        costs = trained_rows(engine, data, run.spec).costs
    assert np.any(costs != 1.0)
    check_run(WORLD.weighed(costs), run)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 1000),
    rule=st.sampled_from(RULES),
    ratio=st.sampled_from([0.3, 0.9, 0.99, 1.0, 1.01, 1.1, 3.0]),
    tol=st.sampled_from([0.5, 1e-2, 1e-6]),
    changed=st.booleans(),
)
def test_screening_bounds_hold_the_margins(tmp_path_factory, seed, rule, ratio, tol, changed):
    """``pipeline.screen`` from any model, however rough, to a lower or higher C and to other rows."""
    world = plain_world(50, 4, seed)
    folder = tmp_path_factory.mktemp("screen")
    data, run = trained(folder / "data", world, [0.5], tol=tol)
    if changed:
        world = joined(world, plain_world(10, 4, seed + 1))
        data = write_shards(folder / "more", world)
    c = 0.5 * ratio
    found = pipeline.screen(data, run.steps[0], c, rule, scheduler="inline")
    f, doubt = world.optimum(c).margins.astype(np.float64), world.norms * world.optimum(c).distance + 1e-15
    assert np.all(found.lower <= f + doubt)
    assert np.all(found.upper >= f - doubt)
    check_verdicts(world, c, found.verdicts)
    assert np.array_equal(found.verdicts == ZERO, found.lower > 1)
    assert np.array_equal(found.verdicts == UPPER, found.upper < 1)
    if rule == "none" or (rule == "gap" and ratio != 1.0):
        assert np.all(found.verdicts == KEEP)
    elif rule in ("it", "bt1") and tol <= 1e-6 and 0.99 <= ratio <= 1.01 and not changed:
        assert np.mean(found.verdicts != KEEP) > 0.3


@pytest.mark.parametrize("c", [0.0, -1.0, np.inf, np.nan])
def test_screening_wants_a_c(tmp_path, c):
    data, run = trained(tmp_path / "data", WORLD, [0.5])
    with pytest.raises(SpecError, match="positive finite"):
        pipeline.screen(data, run.steps[0], c)


@pytest.mark.parametrize("costs", [np.ones(120), np.full(120, 2.5), COSTS])
@pytest.mark.parametrize("c", [0.051, 0.049, 0.2])
def test_survivors_have_the_same_optimum(tmp_path, costs, c):
    """KEEP rows and the folded row, solved by scikit-learn, give the w of all rows."""
    world = WORLD.weighed(costs)
    data, run = trained(tmp_path / "data", world, [0.05], tol=1e-9)
    out = tmp_path / "keep.svm"
    with Engine("inline") as engine:
        found = screening(engine, data, run.steps[0], c)
        counts = screen_to(tmp_path / "verdicts.parquet", found)
        kept, k, shared = survivors_to(out, engine, data, found)
    assert counts[KEEP] == kept
    assert counts[UPPER] > 0
    x, y = load_svmlight_file(str(out), n_features=8)
    assert x.shape[0] == kept + 1
    if shared is None:
        weights = np.loadtxt(f"{out}.weight")
        assert weights[-1] == k
    else:
        weights = np.where(y > 0, shared, k)
    svm = LinearSVC(C=c, loss="hinge", dual=True, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
    svm.fit(x.toarray(), y, sample_weight=weights)
    np.testing.assert_allclose(svm.coef_[0], world.optimum(c).w.astype(np.float64), atol=1e-5)


def test_train_and_screen_from_the_command_line(capsys, tmp_path):
    shards = tmp_path / "data"
    write_shards(shards, WORLD, [40])
    assert command(capsys, "path", shards, "--out", tmp_path / "run0", "--grid", "0.05,1", "-q")[0] == 0
    for c, nearest in ((0.06, 0.05), (0.04, 0.05), (2.0, 1.0), (1.0, 1.0)):
        out = tmp_path / f"run-{c}"
        arguments = ("train", shards, "--c", c, "--reference", tmp_path / "run0", "--out", out, "-q")
        code, _, err = command(capsys, *arguments)
        assert (code, err) == (0, "")
        run = pipeline.open_run(out)
        assert run.steps[0].c_ref == nearest
        check_run(WORLD, run)
    verdicts = tmp_path / "verdicts.parquet"
    code, text, _ = command(
        capsys, "screen", shards, "--reference", tmp_path / "run0", "--c", 0.051, "--out", verdicts, "-q"
    )
    assert code == 0
    assert "rows decided at C = 0.051 by it from C = 0.05" in text
    assert verdicts.is_file()


def test_a_step_outlives_its_run(tmp_path):
    """Without ``out`` the models are temporary; whoever holds a step can still read it."""
    data = write_shards(tmp_path / "data", WORLD)
    step = pipeline.fit_path(data, grid=[0.5], scheduler="inline").steps[0]
    assert step.w.shape == (8,)
    assert step.model.path.exists()
    run = pipeline.fit_path(data, grid=[0.6], reference=step, scheduler="inline")
    check_run(WORLD, run)
    path = step.model.path
    del step
    assert not path.exists()


@pytest.mark.parametrize(("c", "least", "most"), [(0.02, 1, 1), (0.04, 0.1, 0.9), (1.0, 0, 0)])
def test_alpha_follows_its_rows(tmp_path, c, least, most):
    """The first shard is retired, a new one stands behind: the other rows keep their alpha wherever they are now.

    New rows inside the margin all have the same share of their box, the best one for the dual.
    """
    data, old = trained(tmp_path / "old", WORLD, [c], tol=1e-8)
    gone, second = data.shards[0].n_rows, data.shards[1].n_rows
    today = joined(WORLD.rows(np.arange(gone, 120)), plain_world(6, seed=8))
    kept = write_shards(tmp_path / "kept", today, [second, 120 - gone])
    with Engine("inline") as engine:
        point = screening(engine, kept, old.steps[0], c).point
    alpha, f = point.pair.alpha, point.margins
    assert np.count_nonzero(alpha) > 10
    np.testing.assert_array_equal(alpha[:-6], old.steps[0].alpha[gone:])
    inside = f[-6:] < 1
    assert 0 < inside.sum() < 6
    (t,) = set(alpha[-6:][inside])
    assert least <= t / c <= most
    np.testing.assert_array_equal(alpha[-6:][~inside], 0.0)

    def dual(share: float) -> float:
        return today.dual(np.concatenate([alpha[:-6], share * inside]))

    for other in np.linspace(0, c, 21):
        assert dual(other) <= dual(t) + 1e-12


@pytest.mark.parametrize("settings", [{"class_weight": "balanced"}, {"class_weight": (0.5, 3.0)}])
def test_alpha_at_its_bound_stays_there_when_class_weights_change(tmp_path, settings):
    """The weights of ``balanced`` change with every row that comes: alpha keeps its share of the box."""
    _, old = trained(tmp_path / "old", WORLD, [1.0], tol=1e-8, class_weight="balanced")
    data = write_shards(
        tmp_path / "new", joined(WORLD, plain_world(9, seed=8)), [len(WORLD.y) // 3, len(WORLD.y) // 2, 120]
    )
    spec = PathSpec(**settings)
    with Engine("inline") as engine:
        found = screening(engine, data, old.steps[0], 1.0, spec=spec)
        share = found.point.pair.alpha[:120] / found.state.costs[:120]
        before = old.steps[0].alpha / trained_rows(engine, pipeline.open_dataset(tmp_path / "old"), old.spec).costs
    np.testing.assert_allclose(share, before, rtol=1e-9)
    at_bound = np.abs(before - 1) < 1e-12
    assert np.count_nonzero(at_bound) > 5
    np.testing.assert_array_equal(share[at_bound], 1.0)


GRID = [0.5, 1.0, 2.0]


def nights(folder, settings):
    """Return yesterday's data and run, and today's data: a shard less, one more."""
    data, old = trained(folder / "old", WORLD, GRID, tol=1e-6, **settings)
    gone = data.shards[0].n_rows
    today = joined(WORLD.rows(np.arange(gone, 120)), plain_world(12, seed=8))
    return old, today, write_shards(folder / "today", today, [data.shards[1].n_rows, 120 - gone])


@pytest.mark.parametrize("rule", RULES)
def test_every_step_starts_from_the_nearest_reference(tmp_path, rule):
    old, today, data = nights(tmp_path, {"rule": rule})
    run = pipeline.fit_path(data, grid=[*GRID, 2.1, 40.0], rule=rule, tol=1e-6, reference=old.steps, scheduler="inline")
    assert [step.c_ref for step in run.steps] == [*GRID, 2.0, 2.1]
    check_run(today, run)
    third = pipeline.fit_path(data, grid=GRID, rule=rule, tol=1e-6, reference=run.steps[:3], scheduler="inline")
    assert [step.c_ref for step in third.steps] == GRID
    check_run(today, third)


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("grid", [[*GRID, 2.1, 2.2], [0.6, 0.65, 1.0, 1.9, 2.0]])
def test_steps_from_references_continue_with_the_same_bits(tmp_path, grid, steps):
    old, _, data = nights(tmp_path, {})
    settings = {"grid": grid, "tol": 1e-6, "reference": old.steps, "scheduler": "inline"}
    whole = pipeline.fit_path(data, out=tmp_path / "whole", memory="1GB", **settings)

    def stop(event):
        if isinstance(event, StepProgress) and event.done and event.step == steps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.fit_path(data, out=tmp_path / "run", memory="1GB", listen=stop, **settings)
    run = pipeline.fit_path(data, out=tmp_path / "run", memory="1GB", **settings)
    for one, other in zip(run.steps, whole.steps, strict=True):
        assert one.model.path.read_bytes() == other.model.path.read_bytes()
        others = dict.fromkeys(("seconds", "chain", "passes"))  # rows that are held need not be read again
        lines = [each.to_json() | others for each in (one, other)]
        assert lines[0] == lines[1]


def test_a_reference_is_certified_once(tmp_path, monkeypatch):
    old, today, data = nights(tmp_path, {})
    calls = Counter()

    def counted(engine, data, state, step, spec):
        calls[step.c] += 1
        return carried_pair(engine, data, state, step, spec)

    monkeypatch.setattr(linear, "carried_pair", counted)
    grid, settings = [0.5, 0.8, 1.05, 1.3, 2.4], {"tol": 1e-6, "scheduler": "inline"}
    run = pipeline.fit_path(data, grid=grid, reference=[old.steps[1]], **settings)
    assert [step.c_ref for step in run.steps] == [1.0, 1.0, 1.0, 1.05, 1.3]
    assert calls == {1.0: 1}
    check_run(today, run)
    calls.clear()
    run = pipeline.fit_path(data, grid=[0.5, 0.52, 0.9, 2.0], reference=old.steps, **settings)
    assert [step.c_ref for step in run.steps] == [0.5, 0.5, 1.0, 2.0]
    assert calls == {0.5: 1, 1.0: 1, 2.0: 1}


def test_a_step_says_what_its_reference_is_worth(tmp_path):
    old, _, data = nights(tmp_path, {"holdout": 0.2})
    run = pipeline.fit_path(
        data, grid=[0.1, *GRID, 2.1], tol=1e-6, holdout=0.2, reference=old.steps, scheduler="inline"
    )
    assert run.header.c_min is None, "nothing started there"
    assert run.steps[-1].reference is None, "it started from the step before"
    labels = np.concatenate([shard.load().labels for shard in data.shards])
    with pipeline.Engine("inline") as engine:
        assert all(finding.holds for finding in verify(engine, run.path, data))
        for before, step in zip(old.steps, run.steps[1:4], strict=True):
            found = screening(engine, data, before, before.c, spec=run.spec, memory=run.spec.memory)
            held = found.state.held_out()
            assert step.reference["relative_gap"] == found.point.certificate.relative_gap
            expected = np.mean(pipeline.margins(engine, data, before.w)[held] > 0)
            assert step.reference["scores"]["accuracy"] == pytest.approx(expected)
            assert 0 < held.size < labels.size


@pytest.mark.attack
@pytest.mark.parametrize(
    "changes",
    [
        {"w_value": lambda w: 1.5 * w},
        {"alpha_value": lambda alpha: 0.9 * alpha},
        {"alpha_value": at(3, lambda alpha: -alpha)},
        {"alpha_value": at(3, lambda alpha: 9 * alpha)},
        {"c": lambda c: c / 2},
    ],
)
@pytest.mark.parametrize("rule", ["it", "none"])
def test_a_reference_whose_files_were_changed_proves_nothing_false(tmp_path, changes, rule):
    """w_alpha was believed to be the sum of the rows: certificates of the new run were false by a percent."""
    data, old = trained(tmp_path / "old", WORLD, [0.05], rule=rule)
    change_model(old.path, 0, **changes)
    c = float(old.steps[0].model["c"])
    change_step(old.path, 0, c=c)
    run = pipeline.fit_path(data, out=tmp_path / "new", grid=[0.051], reference=open_run(old.path).steps[0], rule=rule)
    check_run(WORLD, run)
    assert all(finding.holds for finding in found(run.path, data))


def test_what_a_reference_on_these_data_has_taught_holds_here(tmp_path):
    """A step from a model of a path on the same data solves for about as few rows as the path itself does."""
    data = write_shards(tmp_path, plain_world(4000, 20, seed=11), [2000])
    path = pipeline.fit_path(data, grid=[0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
    step = pipeline.fit_path(data, grid=[0.5], reference=path.steps).steps[0]
    assert step.c_ref == 0.3
    assert step.working_set < 2 * path.steps[4].working_set < 2000
