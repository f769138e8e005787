"""The two properties that define the product, end to end: from shards on disk to models on disk.

No screened row is ever contradicted by the true optimum, and a certificate is what a full computation of its own gives;
on every kind of data, with every rule and solver, on the eps-path and on grids, in any memory.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.budget import Projection
from pipeline.errors import SolverError, SpecError
from pipeline.spec import RULES, SOLVERS
from pipeline.working import solve as solve_held
from pipeline.working.solver import RowSolver
from tests.in_memory.problem import doubt_of
from tests.maths.problems import KINDS, make_problem
from tests.worlds import ROUNDING, ReadOnce, World, check_run, plain_world, write_shards

SCALES = (1.0, 1.0, 1.0, 1e-6, 1e6)


@st.composite
def worlds(draw, scales=SCALES, largest=40, uneven=(0.0, 1.0, 3.0)) -> World:
    """Dense and sparse, n < d and one feature, duplicates, zero rows, rows that cancel, costs, bias, float32 or not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d = draw(st.integers(2, largest)), draw(st.sampled_from([1, 2, 5, 20, 60]))
    made = make_problem(draw(st.integers(0, 2**32)), n, d, draw(st.sampled_from(KINDS)), draw(st.sampled_from(uneven)))
    z = made.z * draw(st.sampled_from(scales))
    if draw(st.booleans()):
        z = z * (rng.random(z.shape) < 0.4)
    if draw(st.booleans()):
        z = z.astype(np.float32).astype(np.float64)
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = 1.0, -1.0
    x, bias = y[:, None] * z, draw(st.sampled_from([0.0, 0.0, 1.0]))
    return World(np.column_stack([x, np.full(n, bias)]) if bias else x, y, made.costs, bias)


# multiples of C_min: below it, just beyond it (where the ball of the start touches w*), and far jumps
PLACES = (0.5, 0.9, 0.999, 1.001, 1.01, 1.1, 2.0, 5.0, 30.0, 1e3, 1e5)


@settings(max_examples=120)
@given(
    world=worlds(),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    rule=st.sampled_from(RULES),
    solver=st.sampled_from(SOLVERS),
    tol=st.sampled_from([1e-3, 1e-4, 1e-6, 1e-8]),
    grid=st.lists(st.sampled_from(PLACES), min_size=1, max_size=4),
)
def test_every_step_of_a_grid_is_true(tmp_path_factory, world, cuts, rule, solver, tol, grid):
    unit = world.c_min if math.isfinite(world.c_min) else 1.0
    assume(unit < 1e15)  # rows that cancel but for the rounding of the sum
    wanted = [unit * place for place in grid]
    if solver == "liblinear" and np.ptp(world.costs) > 0:
        solver = "auto"
    data = write_shards(tmp_path_factory.mktemp("w") / "shards", world, cuts)
    run = fit_or_refuse(world, data, grid=wanted, rule=rule, solver=solver, tol=tol)
    assert [step.c for step in run.steps] == sorted(set(wanted))
    assert all(step.rule == rule for step in run.steps)
    check_run(world, run)


def fit_or_refuse(world: World, data, **settings):
    """Train; rounding may allow no certificate where the features are 10^6 larger or smaller than the bias, and where
    rows cancel (w = 0 at every C) of which C |z|^2 is more than float64 has digits for.
    """
    try:
        return pipeline.fit_path(data, scheduler="inline", **settings)
    except SolverError:
        sizes = np.abs(world.x[:, :-1])
        assume(not (world.bias and (sizes.max() > 1e3 or sizes.max() < 1e-3)))
        most = settings.get("c_max") or max(settings["grid"])
        assume(not (math.isinf(world.c_min) and most * float(world.norms.max()) ** 2 > 1e12))
        raise


@settings(max_examples=40)
@given(
    world=worlds(),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    rule=st.sampled_from(RULES),
    solver=st.sampled_from(["auto", "newton"]),
    tol=st.sampled_from([1e-3, 1e-5, 1e-8]),
    epsilon=st.sampled_from([0.05, 0.3]),
    decades=st.sampled_from([1, 3, 4]),
)
def test_the_eps_path_is_true_and_leaves_no_hole(tmp_path_factory, world, cuts, rule, solver, tol, epsilon, decades):
    unit = world.c_min if math.isfinite(world.c_min) else 1.0
    assume(unit < 1e15)
    c_max = unit * 10.0**decades
    data = write_shards(tmp_path_factory.mktemp("w") / "shards", world, cuts)
    run = fit_or_refuse(world, data, c_max=c_max, epsilon=epsilon, rule=rule, solver=solver, tol=tol)
    check_run(world, run)
    doubt = doubt_of(world.costs, np.linalg.norm(world.x, axis=1))  # rows that cancel leave a residue of rounding
    assert 1 / run.steps[0].c == pytest.approx(1 / min(world.c_min, c_max), rel=1e-9, abs=doubt)
    check_between(world, run, epsilon, c_max)


def check_between(world: World, run, epsilon: float, c_max: float) -> None:
    """Between two steps, and from the last one on to C_max, the model of the step before is within epsilon."""
    ends = [step.c for step in run.steps[1:]] + [c_max]
    for step, end in zip(map(ReadOnce, run.steps), ends, strict=True):
        for c in {math.sqrt(step.c * end), end * (1 - 1e-12)} if end > step.c else ():
            best = float(world.optimum(c).primal)
            assert world.primal(step.w, c) <= (1 + epsilon) * best + world.blur(c, step.w, step.alpha)


@pytest.mark.parametrize("rule", ["it", "bt1", "bt2"])
@pytest.mark.parametrize("seed", range(3))
def test_the_ball_is_as_large_as_it_must_be(tmp_path, rule, seed):
    """With one feature w* is at the edge of the ball: no radius may be smaller, not even by 1 %.

    From 0.9 C_min to C_min it goes to the upper edge, w = C sum z_i, and the longest row reaches the margin; from there
    on that row is free and holds w* where it is, at the lower edge, as long as its alpha is not 0.
    """
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], 30)
    world = World(rng.uniform(0.1, 1.0, (30, 1)) * y[:, None], y, np.ones(30))
    data = write_shards(tmp_path / "shards", world, [7])
    grid = [place * world.c_min for place in (0.9, 1.0001, 1.01, 1.03)]
    for around in (grid[:2], grid):
        run = pipeline.fit_path(data, grid=around, rule=rule, tol=1e-12, scheduler="inline")
        check_run(world, run)
        assert [step.n_free for step in run.steps] == [0, 1, 1, 1][: len(around)]
        assert run.steps[1].screened_upper >= 27


GRID = (0.002, 0.05, 0.052, 0.055, 1.0, 1.01, 1.03, 20.0)  # far jumps, and steps near enough to screen and to predict


@pytest.fixture(scope="module")
def world():
    return plain_world()


@pytest.fixture(scope="module")
def data(world, tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("plain") / "shards", world, [17, 60])


@pytest.fixture(scope="module")
def usual(data):
    return pipeline.fit_path(data, grid=GRID, tol=1e-6, scheduler="inline")


class TestOneOptimum:
    """Whatever way leads there, the objective is the same within the gaps."""

    @pytest.mark.parametrize("solver", SOLVERS)
    @pytest.mark.parametrize("rule", RULES)
    def test_with_and_without_screening(self, world, data, usual, rule, solver):
        run = pipeline.fit_path(data, grid=GRID, tol=1e-6, rule=rule, solver=solver, scheduler="inline")
        check_run(world, run)
        same_models(usual, run)
        decided = sum(step.n_rows - step.survivors for step in run.steps)
        assert decided > 100 if rule in ("it", "bt1", "bt2") else decided == 0
        assert min(step.working_set for step in run.steps[1:]) < 60

    @pytest.mark.parametrize("settings", [{"predict": False}, {"shrink": False}, {"predict": False, "shrink": False}])
    @pytest.mark.parametrize("solver", ["dcd", "auto"])
    def test_without_prediction_and_shrinking(self, world, data, usual, settings, solver):
        run = pipeline.fit_path(data, grid=GRID, tol=1e-6, solver=solver, scheduler="inline", **settings)
        check_run(world, run)
        same_models(usual, run)
        if not settings.get("predict", True):  # all that is undecided is solved for
            assert all(s.working_set >= s.survivors for s in run.steps[1:])

    @pytest.mark.parametrize(("predict", "solver"), [(False, "dcd"), (True, "auto")])
    def test_a_working_set_that_does_not_fit(self, world, data, usual, monkeypatch, predict, solver):
        """Room for a few rows only: blocks, round and round, and still the same certificates."""
        monkeypatch.setattr(Projection, "working_set", property(lambda self: 20 * (64 + 12 * 8)))
        blocks = []
        few_sweeps = solve_held._few_sweeps

        def counted(problem, *rest):
            blocks.append(problem.u.size)
            return few_sweeps(problem, *rest)

        monkeypatch.setattr(solve_held, "_few_sweeps", counted)
        grid = GRID if predict else GRID[:4]
        run = pipeline.fit_path(data, grid=grid, tol=1e-3, solver=solver, predict=predict, scheduler="inline")
        check_run(world, run)
        for one, two in zip(usual.steps, run.steps, strict=False):
            same_objective(one, two)
        assert blocks
        assert max(blocks) <= 20

    def test_far_jumps_take_the_long_way_round(self, world, data, usual):
        for c in GRID[::-1]:
            run = pipeline.fit_path(data, grid=[c], tol=1e-6, scheduler="inline")
            check_run(world, run)
            (step,) = run.steps
            (known,) = (s for s in usual.steps if s.c == c)
            same_objective(known, step)

    def test_cut_into_other_shards(self, world, usual, tmp_path):
        for k, cuts in enumerate([(), (1, 2, 3), range(0, 120, 7)]):
            other = write_shards(tmp_path / str(k), world, list(cuts))
            same_models(usual, pipeline.fit_path(other, grid=GRID, tol=1e-6, scheduler="inline"))

    def test_rows_in_another_order(self, world, usual, tmp_path):
        order = np.random.default_rng(1).permutation(len(world.y))
        data = write_shards(tmp_path / "shards", world.rows(order), [50])
        run = pipeline.fit_path(data, grid=GRID, tol=1e-6, scheduler="inline")
        same_models(usual, run)

    def test_a_row_twice_is_a_row_of_cost_two(self, world, tmp_path):
        twice = np.arange(0, 120, 5)
        doubled = world.rows(np.concatenate([np.arange(120), twice]))
        costs = np.ones(120)
        costs[twice] = 2.0
        runs = []
        for name, each in (("doubled", doubled), ("weighed", world.weighed(costs))):
            data = write_shards(tmp_path / name, each, [40])
            runs.append(pipeline.fit_path(data, grid=GRID, tol=1e-6, scheduler="inline"))
            check_run(each, runs[-1])
        same_models(*runs)

    def test_scaled_features_are_another_c(self, world, tmp_path):
        """With rows 10 times as long the optimum at C/100 is w/10: the same margins."""
        large = World(10 * world.x, world.y, world.costs)
        data = write_shards(tmp_path / "shards", large, [40])
        run = pipeline.fit_path(data, grid=[c / 100 for c in GRID], tol=1e-8, scheduler="inline")
        for step, c in zip(run.steps, GRID, strict=True):
            assert 100 * step.primal == pytest.approx(float(world.optimum(c).primal), rel=1e-7)

    def test_the_same_bits_from_every_scheduler(self, world, tmp_path):
        data = write_shards(tmp_path / "shards", world, [17, 60, 61, 100])
        models = {}
        for name in ("inline", "threads", "processes"):
            run = pipeline.fit_path(
                data,
                out=tmp_path / name,
                c_max=1.0,
                epsilon=0.05,
                scheduler=name,
                workers=None if name == "inline" else 2,
            )
            models[name] = [step.model.path.read_bytes() for step in run.steps]
            check_run(world, run, oracle=False)
        assert len(models["inline"]) > 10
        assert models["inline"] == models["threads"] == models["processes"]


def same_objective(one, two) -> None:
    """Two certified models of the same C: each primal value is above the other's dual, and w differ by their balls."""
    blur = ROUNDING * (one.primal + two.primal)
    assert one.dual <= two.primal + blur
    assert two.dual <= one.primal + blur
    reach = sum(math.sqrt(2 * max(0.0, step.primal - step.dual) + blur) for step in (one, two))
    assert float(np.linalg.norm(one.w - two.w)) <= reach * 1.0001


def same_models(one, two) -> None:
    assert [step.c for step in one.steps] == [step.c for step in two.steps]
    for a, b in zip(one.steps, two.steps, strict=True):
        same_objective(a, b)


class TestTheStart:
    def test_rows_that_cancel(self, tmp_path):
        """There is no C_min: w = 0 and alpha = u is the solution at every C."""
        half = plain_world(20, 3)
        x = np.concatenate([half.x, -half.x])
        world = World(x, np.concatenate([half.y, half.y]), np.ones(40))
        data = write_shards(tmp_path / "shards", world, [13])
        run = pipeline.fit_path(data, c_max=100.0, scheduler="inline")
        (step,) = run.steps
        assert step.c == 100.0
        assert step.primal == pytest.approx(100 * 40)
        check_run(world, run)
        check_run(world, pipeline.fit_path(data, grid=[7, 0.1, 1e4], scheduler="inline"))
        with pytest.raises(SpecError, match="no C_min"):
            pipeline.fit_path(data, grid=[1, 2], grid_in_c_min=True, scheduler="inline")

    @pytest.mark.parametrize("settings", [{"c_max": 1e4}, {"grid": [1e3, 1e4, 1e5]}])
    def test_rounding_hides_where_the_path_starts(self, tmp_path, settings):
        """The sum of the rows is within its own rounding of 0, but not 0: the closed form is wrong from C = 2500 on."""
        world = World(np.array([[1e6], [1e6], [4e-10]]), np.array([1.0, -1.0, 1.0]), np.ones(3))
        data = write_shards(tmp_path / "shards", world)
        run = pipeline.fit_path(data, scheduler="inline", **settings)
        assert run.header.c_min is None
        check_run(world, run)

    def test_a_grid_that_starts_below_c_min(self, tmp_path):
        world = plain_world()
        data = write_shards(tmp_path / "shards", world, [50])
        run = pipeline.fit_path(data, grid=[0.1, 2.0, 0.5, 3.0, 0.5], grid_in_c_min=True, scheduler="inline")
        assert [step.c / world.c_min for step in run.steps] == pytest.approx([0.1, 0.5, 2.0, 3.0])
        assert [step.solver == "closed form" for step in run.steps] == [True, True, False, False]
        for step in run.steps[:2]:
            np.testing.assert_allclose(step.w, step.c * world.z.sum(axis=0), rtol=1e-12)
            assert np.all(step.alpha == step.c)
        check_run(world, run)

    def test_separable_rows_need_few_steps_to_any_c(self, tmp_path):
        """Once no row is inside the margin w no longer changes with C."""
        world = plain_world(50, noise=0.0)
        data = write_shards(tmp_path / "shards", world, [30])
        run = pipeline.fit_path(data, c_max=1e9, epsilon=0.2, scheduler="inline")
        check_run(world, run)
        check_between(world, run, 0.2, 1e9)
        assert len(run.steps) < 20


class TestWeights:
    def test_class_weights_are_costs(self, tmp_path):
        world = plain_world()
        data = write_shards(tmp_path / "shards", world, [50])
        run = pipeline.fit_path(data, grid=[0.01, 1.0], class_weight=(3.0, 0.5), tol=1e-6, scheduler="inline")
        check_run(world.weighed(np.where(world.y > 0, 0.5, 3.0)), run)

    def test_balanced_weights_are_explicit_ones(self, tmp_path):
        world = plain_world().rows(np.argsort(-plain_world().y, kind="stable")[:90])
        data = write_shards(tmp_path / "shards", world, [50])
        positive = int(np.count_nonzero(world.y > 0))
        assert positive != 45
        explicit = (90 / (2 * (90 - positive)), 90 / (2 * positive))
        runs = [
            pipeline.fit_path(data, grid=[0.01, 1.0], class_weight=weight, scheduler="inline")
            for weight in ("balanced", explicit)
        ]
        for one, two in zip(runs[0].steps, runs[1].steps, strict=True):
            np.testing.assert_array_equal(one.w, two.w)
            np.testing.assert_array_equal(one.alpha, two.alpha)
        check_run(world.weighed(np.where(world.y > 0, explicit[1], explicit[0])), runs[0])

    def test_class_weights_multiply_the_costs_of_rows(self, tmp_path):
        costs = np.random.default_rng(0).uniform(0.1, 5.0, 120)
        world = plain_world().weighed(costs)
        data = write_shards(tmp_path / "shards", world, [50])
        run = pipeline.fit_path(data, grid=[0.01, 1.0], class_weight=(2.0, 0.25), tol=1e-6, scheduler="inline")
        check_run(world.weighed(costs * np.where(world.y > 0, 0.25, 2.0)), run)

    def test_liblinear_refuses_what_it_cannot_weigh(self, tmp_path):
        data = write_shards(tmp_path / "shards", plain_world())
        with pytest.raises(SpecError, match="one by one; use --solver auto"):
            pipeline.fit_path(data, grid=[1.0], solver="liblinear", class_weight="balanced", scheduler="inline")


def test_a_bad_reference_does_not_ask_the_solver_for_the_impossible(tmp_path, monkeypatch):
    """The dual value of another data set's alpha may be negative; the target stays a share of the tolerance."""
    data = [write_shards(tmp_path / str(k), plain_world(seed=k), [50]) for k in range(2)]
    other = pipeline.fit_path(data[0], grid=[10.0], scheduler="inline")
    targets = []
    solve = RowSolver.solve

    def noted(self, c, pair, chosen, target, clock, lead=None):
        targets.append(target)
        return solve(self, c, pair, chosen, target, clock, lead)

    monkeypatch.setattr(RowSolver, "solve", noted)
    run = pipeline.fit_path(data[1], grid=[10.0], reference=other.steps[0], scheduler="inline")
    assert targets[0] >= 1e-4 * run.spec.tol * run.steps[0].primal
    check_run(plain_world(seed=1), run)
