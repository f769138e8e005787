"""Paths in a kernel's space, end to end: every certificate and every verdict against a dense Q in extended precision.

And the same bits, wherever passes ran, however columns were kept, and whatever was killed.
"""

from __future__ import annotations

import math
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.budget import KernelProjection, project_kernel
from pipeline.engine.engine import Engine
from pipeline.errors import BudgetError, SolverError
from pipeline.path import spaces
from pipeline.path.kernel import KernelSpace
from pipeline.path.lazy import LazyCertifier
from pipeline.spec import RULES, PathSpec
from pipeline.working.facts import collect
from tests.kernel_worlds import KernelWorld, c_min_of, check_kernel_run, exact_values, plain_kernel_world
from tests.oracle import LONG
from tests.worlds import write_shards

PLACES = (0.5, 0.999, 1.001, 1.1, 2.0, 10.0, 100.0, 1e4)


@st.composite
def kernel_worlds(draw, largest: int = 24) -> KernelWorld:
    """Duplicates with the same and with other labels, zero rows, sparse rows, costs, a bias; flat and steep kernels."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d = draw(st.integers(2, largest)), draw(st.sampled_from([1, 2, 6]))
    x = rng.standard_normal((n, d)) * draw(st.sampled_from([1.0, 1.0, 1e-3, 30.0]))
    if draw(st.booleans()):
        x = x * (rng.random(x.shape) < 0.5)
    if draw(st.booleans()):
        x[n // 2 :] = x[: n - n // 2]
    y = rng.choice([-1.0, 1.0], n)
    y[:2] = 1.0, -1.0
    costs = np.exp(rng.standard_normal(n) * draw(st.sampled_from([0.0, 0.0, 1.0])))
    bias = draw(st.sampled_from([0.0, 0.0, 1.0]))
    gamma = draw(st.sampled_from([1e-3, 0.1, 1.0, 20.0]))
    return KernelWorld(np.column_stack([x, np.full(n, bias)]) if bias else x, y, costs, bias, gamma=gamma)


@settings(max_examples=100)
@given(
    world=kernel_worlds(),
    cuts=st.lists(st.integers(0, 24), max_size=3),
    rule=st.sampled_from(RULES),
    tol=st.sampled_from([1e-3, 1e-4, 1e-6]),
    grid=st.lists(st.sampled_from(PLACES), min_size=1, max_size=4),
)
def test_every_step_of_a_grid_is_true(tmp_path_factory, world, cuts, rule, tol, grid):
    unit = c_min_of(world)
    # Rows that cancel but for rounding, or are nearly equal with other labels: beyond it rounding may allow no such gap
    assume(unit < 1e6 and unit * max(grid) < 1e7)
    data = write_shards(tmp_path_factory.mktemp("w") / "shards", world, cuts)
    try:
        run = fit(data, world, grid=[unit * place for place in grid], rule=rule, tol=tol)
    except SolverError:  # squared distances of rows that are far from the origin have fewer digits; sums have of alphas
        size, all_costs = world.gamma * float((world.x**2).sum(axis=1).max()), float(world.costs.sum())
        assume(unit * max(grid) * 2.0**-53 * max(1000 * size, 100 * all_costs) < tol)
        raise
    assert run.header.c_min == pytest.approx(unit, rel=1e-9)
    check_kernel_run(world, run)


@settings(max_examples=30)
@given(
    world=kernel_worlds(),
    cuts=st.lists(st.integers(0, 24), max_size=3),
    rule=st.sampled_from(RULES),
    epsilon=st.sampled_from([0.05, 0.3]),
    decades=st.sampled_from([1, 3]),
)
def test_the_eps_path_is_true_and_leaves_no_hole(tmp_path_factory, world, cuts, rule, epsilon, decades):
    unit = c_min_of(world)
    c_max = unit * 10.0**decades
    assume(c_max < 1e7)  # rows that are nearly equal, with other labels: beyond it rounding may allow no gap of 1e-5
    data = write_shards(tmp_path_factory.mktemp("w") / "shards", world, cuts)
    run = fit(data, world, c_max=c_max, epsilon=epsilon, rule=rule, tol=1e-5)
    check_kernel_run(world, run)
    ends = [step.c for step in run.steps[1:]] + [c_max]
    for step, end in zip(run.steps, ends, strict=True):
        c = math.sqrt(step.c * end)
        between = world.values(c, step.alpha)[0]  # the primal value of the same w at a C in between
        assert float(between) <= (1 + epsilon) * float(world.optimum(c).primal) * (1 + 1e-9)


def fit(data, world: KernelWorld, **settings):
    try:
        return pipeline.fit_path(data, scheduler="inline", kernel="rbf", gamma=world.gamma, **settings)
    except SolverError as error:
        assume("float64 cannot tell" not in str(error))  # duplicates with other labels at a huge C
        raise


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    scale=st.sampled_from([1.0, 1e3, 1e6]),
    gamma=st.sampled_from([1e-14, 1e-8, 1e-3, 1.0]),
    place=st.sampled_from([2.0, 1e3, 1e6]),
    bias=st.sampled_from([0.0, 3.0]),
)
def test_a_certificate_is_never_better_than_the_truth(tmp_path_factory, seed, scale, gamma, place, bias):
    """At 60 digits: features far from 0, where squares cancel; C where sum alpha is huge."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((7, 2)) + 5.0) * scale
    x = np.column_stack([x, np.full(7, bias)]) if bias else x
    world = KernelWorld(x, np.array([1.0, -1, 1, -1, 1, -1, 1]), rng.random(7) + 0.5, bias, gamma=gamma)
    unit = c_min_of(world)
    assume(unit < 1e12)
    data = write_shards(tmp_path_factory.mktemp("w") / "shards", world, [3])
    try:
        run = pipeline.fit_path(data, scheduler="inline", kernel="rbf", gamma=gamma, grid=[unit * place], tol=0.3)
    except SolverError:
        return  # float64 cannot certify it, and says so
    step = run.steps[0]
    primal, dual = exact_values(world, step.c, step.alpha)
    assert Decimal(step.primal) >= primal
    assert Decimal(step.dual) <= dual


@pytest.mark.attack
@pytest.mark.parametrize("cost", [1e16, 1e17, 1e18])
def test_a_row_of_a_huge_cost_takes_digits_of_the_others(tmp_path, cost):
    """Bins are for the largest alpha that there may be: what they lose of the others is part of a certificate."""
    for seed in (2, 5):
        rng = np.random.default_rng(seed)
        costs = rng.random(40) + 0.5
        x, y = 3 * rng.standard_normal((40, 2)), np.where(np.arange(40) % 2, 1.0, -1.0)
        world = KernelWorld(x, y, np.where(np.arange(40) == 0, cost, 1.0) * costs, 0.0, gamma=1.0)
        data = write_shards(tmp_path / str(seed), world)
        (step,) = pipeline.fit_path(data, scheduler="inline", kernel="rbf", gamma=1.0, grid=[1.0], tol=0.3).steps
        primal, dual = exact_values(world, step.c, step.alpha)
        assert Decimal(step.primal) >= primal
        assert Decimal(step.dual) <= dual


@pytest.mark.attack
@pytest.mark.parametrize("rule", ["bt1", "bt2", "it"])
def test_bounds_are_as_wide_as_products_are_off(tmp_path, rule):
    """Sums over columns are off by more than a row's number of features says: verdicts went by that alone."""
    world, off = plain_kernel_world(40, 3, seed=1), 0.01
    data, spec = write_shards(tmp_path / "shards", world), PathSpec(kernel="rbf", gamma=0.5)
    with Engine("inline") as engine:
        state = collect(engine, data, spec, None)
        space = spaces.make_space(engine, data, state, spec, spaces.projected(engine, data, spec))
        point = space.certify(1.0, space.first(1.0))
    worse = replace(point, errors=tuple(error + off for error in point.errors))
    bounds, wider = (each.proof(1.05, rule).bounds(slice(0, 40)) for each in (point, worse))
    assert (wider[0] < bounds[0] - 0.9 * off).all()
    assert (wider[1] > bounds[1] + 0.9 * off).all()


def models(run) -> list[bytes]:
    return [path.read_bytes() for path in sorted((Path(run.path) / "models").iterdir())]


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    world = plain_kernel_world(300, 4, seed=3)
    return world, write_shards(tmp_path_factory.mktemp("ring") / "shards", world, [50, 120, 121])


SETTINGS = {"kernel": "rbf", "gamma": 0.5, "c_max": 50.0, "epsilon": 0.05}


def with_memory(
    monkeypatch, working_rows: int | None = None, columns: int | None = None, free_rows: int | None = None
) -> None:
    """Let runs have so many rows in the working set, or where more are free, and bytes for columns."""

    def found(*arguments) -> KernelProjection:
        had = project_kernel(*arguments)
        rows, kept = working_rows or had.working_rows, had.columns if columns is None else columns
        return KernelProjection(had.budget, had.scratch, rows, free_rows or rows, kept)

    monkeypatch.setattr(spaces, "project_kernel", found)


class TestBits:
    """What a run writes depends on the rows and the settings alone."""

    @pytest.mark.parametrize("columns", [None, 0, 8 * 300 * 7])  # all are kept, none is, seven are
    def test_schedulers_and_cuts(self, ring, tmp_path, monkeypatch, columns):
        world, data = ring
        with_memory(monkeypatch, columns=columns)
        expected = models(pipeline.fit_path(data, out=tmp_path / "one", **SETTINGS))
        assert len(expected) > 20
        assert models(pipeline.fit_path(data, out=tmp_path / "two", scheduler="processes", **SETTINGS)) == expected
        assert models(pipeline.fit_path(data, out=tmp_path / "three", scheduler="inline", **SETTINGS)) == expected
        other = write_shards(tmp_path / "whole", world)
        assert models(pipeline.fit_path(other, out=tmp_path / "four", **SETTINGS)) == expected

    @pytest.mark.parametrize("columns", [None, 0])
    def test_killed_after_any_step_it_goes_on_to_the_same_models(self, ring, tmp_path, monkeypatch, columns):
        _, data = ring
        with_memory(monkeypatch, working_rows=120, columns=columns)
        expected = models(pipeline.fit_path(data, out=tmp_path / "one", **SETTINGS))

        class KilledError(Exception):
            pass

        def kill(event) -> None:
            if getattr(event, "done", False):
                raise KilledError

        while True:
            try:
                run = pipeline.fit_path(data, out=tmp_path / "run", listen=kill, **SETTINGS)
                break
            except KilledError:
                continue
        assert models(run) == expected


@pytest.mark.parametrize("columns", [None, 0])
def test_free_rows_are_solved_for_together(ring, tmp_path, monkeypatch, columns):
    """Where more rows are free than a round usually has, it has all of them: fewer rounds, the same truth."""
    world, data = ring
    rounds = {}
    for free_rows in (50, 300):
        with pytest.MonkeyPatch.context() as patch:
            with_memory(patch, working_rows=50, columns=columns, free_rows=free_rows)
            run = pipeline.fit_path(data, kernel="rbf", gamma=0.5, grid=[1.0, 3.0])
        check_kernel_run(world, run, oracle=free_rows == 300)
        assert max(step.n_free for step in run.steps) > 50
        rounds[free_rows] = sum(step.rounds for step in run.steps)
        most = max(step.working_set for step in run.steps)
        assert most == 50 if free_rows == 50 else 50 < most <= 300
    assert rounds[300] < rounds[50]


class TestLazy:
    """Certificates for which few rows were woken."""

    @settings(max_examples=60, deadline=None)
    @given(world=kernel_worlds(40), tol=st.sampled_from([1e-3, 1e-6]), place=st.sampled_from([1.5, 20.0, 1e3]))
    def test_is_never_better_than_the_truth(self, tmp_path_factory, world, tol, place):
        """Every certificate on the way, not only the last of a step, which wakes all rows."""
        unit = c_min_of(world)
        assume(unit < 1e6)
        data = write_shards(tmp_path_factory.mktemp("w") / "shards", world, [7])
        with pytest.MonkeyPatch.context() as patch, watched(patch) as seen:
            with_memory(patch, working_rows=4, columns=0)
            with suppress(SolverError):  # four rows at a time may get nowhere, and say so
                run = pipeline.fit_path(
                    data, scheduler="inline", kernel="rbf", gamma=world.gamma, grid=[unit * place], tol=tol
                )
                check_kernel_run(world, run)
        for point in seen:
            check_lazy(world, point)

    def test_few_rows_are_woken(self, tmp_path, monkeypatch):
        world = plain_kernel_world(400, 2, seed=5, gamma=2.0)
        data = write_shards(tmp_path / "shards", world, [150])
        with_memory(monkeypatch, working_rows=20, columns=0)
        with watched(monkeypatch) as seen:
            run = pipeline.fit_path(data, kernel="rbf", gamma=2.0, grid=[1.0, 1.2], tol=1e-6)
        check_kernel_run(world, run, oracle=False)
        assert len(seen) > 10
        assert np.mean([point.pair.awake.mean() for point in seen]) < 0.4
        for point in seen:
            check_lazy(world, point)

    def test_the_first_working_set_is_a_sample(self, tmp_path, monkeypatch):
        world = plain_kernel_world(500, 3, seed=2)
        data = write_shards(tmp_path / "shards", world, [150])
        with_memory(monkeypatch, working_rows=60, columns=0)
        run = pipeline.fit_path(data, out=tmp_path / "run", kernel="rbf", gamma=0.5, grid=[1.0, 30.0])
        assert run.header.c_min is None
        check_kernel_run(world, run, oracle=False)
        again = pipeline.fit_path(
            data, out=tmp_path / "again", scheduler="processes", **(SETTINGS | {"grid": [1.0, 30.0]})
        )
        assert models(run) == models(again)


@contextmanager
def watched(patch):
    """Collect the lazy points that are made."""
    seen, point = [], LazyCertifier.point

    def noted(self, c, pair):
        found = point(self, c, pair)
        if found is not None:
            seen.append(found)
        return found

    patch.setattr(LazyCertifier, "point", noted)
    yield seen


def check_lazy(world: KernelWorld, point) -> None:
    """P and D bound the truth, and so do the intervals of the rows that sleep."""
    primal, dual = world.values(point.c, point.pair.alpha)
    alpha, found = point.pair.alpha, point.certificate
    own = LONG(1e-18) * alpha.size * (alpha.sum() ** 2 * (1 + world.bias**2) + primal)
    assert found.primal >= primal - own
    assert found.dual <= dual + own
    f = world.q @ alpha.astype(LONG)
    assert np.all(np.abs(f - point.margins) <= point.errors[0] + 1e-18 * alpha.sum())


def test_a_small_working_set_only_takes_longer(ring, monkeypatch):
    world, data = ring
    with_memory(monkeypatch, working_rows=20)
    most, solve = [], KernelSpace.solve

    def noted(self, *arguments):
        found = solve(self, *arguments)
        most.append(self.gram.rows.size)
        return found

    monkeypatch.setattr(KernelSpace, "solve", noted)
    run = pipeline.fit_path(data, kernel="rbf", gamma=0.5, grid=[0.1, 1.0, 10.0], tol=1e-3)
    check_kernel_run(world, run, oracle=False)
    assert max(most) == 20 == max(step.working_set for step in run.steps)


@pytest.mark.parametrize(("features", "gamma", "rows", "c"), [(10, 0.1, 50, 100.0), (20, 0.01, 50, 1000.0)])
def test_many_more_free_rows_than_a_round_solves_for_only_take_longer(tmp_path, monkeypatch, features, gamma, rows, c):
    """Blocks in turn near a singular Gram matrix: the dual value is at its end long before the primal one is."""
    world = plain_kernel_world(300, features, seed=1, gamma=gamma)
    data = write_shards(tmp_path / "shards", world, [150])
    with_memory(monkeypatch, working_rows=rows)
    run = pipeline.fit_path(data, kernel="rbf", gamma=gamma, grid=[c / 100, c], tol=1e-4)
    check_kernel_run(world, run, oracle=False)
    assert run.steps[-1].working_set == rows
    assert run.steps[-1].n_free > 3 * rows
    assert run.steps[-1].rounds > 50


def test_a_budget_too_small_says_both_numbers(ring):
    with pytest.raises(BudgetError, match=r"300 rows with a kernel need at least \d+ MB, but the budget is 50 MB"):
        pipeline.fit_path(ring[1], memory="50MB", **SETTINGS)


def test_holdout_and_folds_are_scored(ring, tmp_path):
    run = pipeline.fit_path(ring[1], out=tmp_path / "run", holdout=0.3, kernel="rbf", gamma=0.5, grid=[1.0, 10.0])
    assert all(step.scores["accuracy"] > 0.6 for step in run.steps)
    assert all(0 < step.n_rows < 300 for step in run.steps)
