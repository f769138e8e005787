"""``verify`` computes in a precision of its own: what it says of P, D and their gap is true in rational arithmetic."""

from __future__ import annotations

import json
import math
import shutil
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.engine import Engine
from pipeline.path.fit import fit_path
from pipeline.path.path import versions
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import open_run
from pipeline.runs.records import StepRecord
from pipeline.runs.writer import writing
from pipeline.spec import PathSpec
from pipeline.verify import recompute, twofold
from pipeline.verify.enclosure import Enclosure, Interval, nearest, rounded_down, rounded_up
from pipeline.verify.stored_model import Model
from tests import oracle
from tests.tampering import change_header, change_step, found, reseal
from tests.worlds import World, plain_world, write_shards

pytestmark = pytest.mark.attack

ROWS, FEATURES = 12, 4
TIGHT = Fraction(10) ** -24
NO_VERDICTS = np.zeros(-(-ROWS // 8), np.uint8)


def exact_values(z, costs, c, w, alpha) -> tuple[Fraction, Fraction]:
    """P and D by their definitions, in rationals; alpha is clipped to its exact box."""
    z, w = [[Fraction(x) for x in row] for row in z.tolist()], [Fraction(x) for x in w.tolist()]
    costs, c = [Fraction(x) for x in costs.tolist()], Fraction(c)
    alpha = [min(Fraction(a), c * cost) for a, cost in zip(alpha.tolist(), costs, strict=True)]
    margins = [sum(x * v for x, v in zip(row, w, strict=True)) for row in z]
    hinge = sum(cost * max(Fraction(0), 1 - f) for cost, f in zip(costs, margins, strict=True))
    w_alpha = [sum(a * row[j] for a, row in zip(alpha, z, strict=True)) for j in range(len(w))]
    return sum(v * v for v in w) / 2 + c * hinge, sum(alpha) - sum(v * v for v in w_alpha) / 2


def exact_gap(primal: Fraction, dual: Fraction) -> Fraction:
    return (primal - dual) / primal


@pytest.fixture(scope="module")
def engine():
    with Engine("inline", 1) as engine:
        yield engine


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.floats(-160, 142),  # rows above 1e150 are refused wherever shards are read
    stretch=st.floats(-4, 4),
    c=st.floats(-200, 200),
    spread=st.sampled_from([0.0, 3.0, 12.0]),
)
def test_enclosures_hold_the_rational_values(tmp_path_factory, engine, seed, size, stretch, c, spread):
    """Magnitudes from 1e-160 to 1e148, C from 1e-200 to 1e200, margins near 1 and far from it, features far apart."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((ROWS, FEATURES)) * 10.0 ** (size + random.uniform(-spread, spread, FEATURES) / 2)
    costs, y = random.uniform(0.1, 3.0, ROWS), np.where(np.arange(ROWS) % 2, 1.0, -1.0)
    world, c = World(x, y, costs), 10.0**c
    w = np.linalg.lstsq(world.z / 10.0**size, np.ones(ROWS), rcond=None)[0] / 10.0**size * 10.0**stretch
    share = np.where(random.random(ROWS) < 0.4, 1.0, random.random(ROWS))
    alpha = np.where(share == 1.0, c * costs, share * c * costs)
    with np.errstate(over="ignore"):
        data = write_shards(tmp_path_factory.mktemp("rows") / "shards", world, [5])
    index = np.arange(FEATURES)
    model = Model(c, (index, w), (np.arange(ROWS), alpha), (index, w), NO_VERDICTS, NO_VERDICTS)
    (values,) = recompute.recompute(engine, data, costs, [model], lambda rows: None)
    primal, dual = exact_values(world.z, costs, c, w, alpha)
    worth = values.enclosure
    if worth is None:
        assert primal > 1e300 or -dual > 1e290, "only what float64 cannot hold has no worth"
        return
    assert worth.primal.lower <= primal <= worth.primal.upper
    assert worth.dual.lower <= dual <= worth.dual.upper
    assert worth.relative_gap.lower <= exact_gap(primal, dual) <= worth.relative_gap.upper
    if primal > 1e-280:
        assert worth.primal.upper - worth.primal.lower <= TIGHT * primal
        assert worth.dual.upper - worth.dual.lower <= TIGHT * (abs(dual) + Fraction(alpha.sum()))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e150, 1e150), min_size=1, max_size=20))
def test_sums_in_two_parts_lose_what_they_say(values):
    high, low = np.zeros(1), np.zeros(1)
    for value in values:
        twofold.add_to(high, low, np.array([value]))
    magnitude = sum(abs(Fraction(value)) for value in values)
    assert abs(twofold.exact(high[0], low[0]) - sum(map(Fraction, values))) <= twofold.lost(len(values), magnitude)
    twofold.normalise(high, low)
    assert high[0] + low[0] == high[0]
    (square,) = twofold.squares(high[:, None], low[:, None])
    true = twofold.exact(high[0], low[0]) ** 2
    assert abs(square - true) <= twofold.lost(1, true)


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(-1, 3), Fraction(1), Fraction(10) ** 400, Fraction(0)])
def test_rounding_goes_where_it_says(x):
    assert rounded_down(x) <= x <= rounded_up(x)
    assert math.nextafter(rounded_down(x), math.inf) >= rounded_up(x)
    assert (rounded_down(-x), rounded_up(-x)) == (-rounded_up(x), -rounded_down(x))


def test_a_gap_lies_between_0_and_what_the_worst_values_give():
    def gap(primal, dual):
        primal, dual = (Interval(*map(Fraction, x)) for x in (primal, dual))
        found = Enclosure(1.0, primal, dual, Fraction(0), Fraction(0), Fraction(0), Fraction(0)).relative_gap
        return found.lower, found.upper

    assert gap((0, 0), (0, 0)) == (0, 0)
    assert gap((4, 5), (4, 5)) == (0, Fraction(1, 5))
    assert gap((4, 5), (2, 3)) == (Fraction(1, 4), Fraction(3, 5))
    assert gap((4, 5), (-2, -1)) == (Fraction(6, 5), Fraction(3, 2))


# Certificates that are not true: rows that float64 cannot hold on the margin


def separable(size: float) -> World:
    """60 rows on two sides of a plane, with features of some size."""
    random = np.random.default_rng(7)
    x = random.standard_normal((60, 5))
    return World(size * x, np.where(x @ random.standard_normal(5) > 0, 1.0, -1.0), np.ones(60))


def as_float64_says(folder, world: World, c: float):
    """A run of version 1: the optimum in float64, certified in float64, which is blind to its own rounding."""
    data = write_shards(folder / "shards", world)
    best = oracle.solve(world.z, c)
    alpha = np.clip(best.alpha.astype(np.float64), 0.0, c)
    alpha[alpha < 1e-9 * c * alpha.max()] = 0.0
    w = best.w.astype(np.float64)
    value = float(w @ w) / 2
    facts = {"c": c, "c_ref": c, "primal": value, "dual": value, "relative_gap": 0.0, "n_rows": 60, "scores": None}
    facts |= {"n_free": int(np.count_nonzero((alpha > 0) & (alpha < c))), "n_upper": int(np.count_nonzero(alpha == c))}
    facts |= {"screened_zero": 0, "screened_upper": 0, "survivors": 60, "passes": 1.0, "seconds": {"total": 0.0}}
    facts |= {"rule": "it", "solver": "newton", "working_set": 60, "drift": 0.0, "theta": 3.0, "error": None}
    with writing(folder / "run", PathSpec(grid=(c,)), DataRecord.of(data), versions()) as writer:
        writer.append(StepRecord(**facts), w, alpha, np.zeros(60, np.int8), alpha @ world.z)
        writer.update(c_min=world.c_min, class_weights=(1.0, 1.0))
        writer.finish(best_step=0, seconds=0.0)
    change_header(folder / "run", version=1)
    reseal(folder / "run")
    return data, folder / "run", w, alpha


@pytest.mark.parametrize(("size", "c"), [(1e5, 1e4), (1e7, 1.0)])
def test_a_gap_that_only_float64_believes_in_is_refused(tmp_path, size, c):
    """Features of 1e5 at C = 1e4: the stored gap is 0, that of the stored model is far above tol."""
    world = separable(size)
    data, run, w, alpha = as_float64_says(tmp_path, world, c)
    gap = exact_gap(*exact_values(world.z, world.costs, c, w, alpha))
    assert gap > 2e-4
    (finding,) = found(run, data)
    assert finding.problem == f"the relative gap {float(gap):.6g} is above the run's tol 0.0001"
    assert finding.relative_gap == pytest.approx(float(gap), rel=1e-12)
    change_header(run, version=2)
    reseal(run)
    assert " is below P, " in found(run, data)[0].problem


# Version 2: what is stored are bounds


@pytest.fixture(scope="module")
def bounded(tmp_path_factory):
    """A run whose stored numbers are the best bounds there are."""
    folder, world = tmp_path_factory.mktemp("bounded"), plain_world(60, 5)
    data = write_shards(folder / "shards", world, [20, 45])
    fit_path(data, out=folder / "run", grid=[0.01, 0.1, 1.0], tol=1e-4, solver="dcd")
    for step in open_run(folder / "run").steps:
        primal, dual = exact_values(world.z, world.costs, step.c, step.w, step.alpha)
        numbers = {"primal": rounded_up(primal), "dual": rounded_down(dual)}
        gap = rounded_up(exact_gap(*(Fraction(x) for x in numbers.values())))
        change_step(folder / "run", step.step, **numbers, relative_gap=gap)
    change_header(folder / "run", version=2)
    reseal(folder / "run")
    return data, folder / "run"


def test_true_bounds_hold(bounded):
    data, run = bounded
    for finding, step in zip(found(run, data), open_run(run).steps, strict=True):
        assert (finding.problem, finding.primal, finding.dual) == ("", step.primal, step.dual)
        assert finding.relative_gap <= step.relative_gap


@pytest.mark.parametrize(
    ("name", "towards", "message"),
    [
        ("primal", -math.inf, "is below P, "),
        ("dual", math.inf, "is above D, "),
        ("relative_gap", 0.0, "is below the gap, "),
    ],
)
def test_a_bound_that_is_not_one_is_refused_to_the_last_bit(bounded, tmp_path, name, towards, message):
    data, run = bounded
    run = shutil.copytree(run, tmp_path / "run")
    stored = open_run(run).steps[1].to_json()[name]
    change_step(run, 1, **{name: math.nextafter(stored, towards) if towards else towards})
    reseal(run)
    problems = [finding.problem for finding in found(run, data)]
    assert [bool(problem) for problem in problems] == [False, True, False]
    assert problems[1].startswith(f"the stored {name} ")
    assert message in problems[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"primal": math.nan}, "steps.jsonl does not say its primal"),
        ({"relative_gap": 2e-4}, "the stored relative_gap 0.0002 is above the run's tol 0.0001"),
        ({"primal": 1e9}, "is not that of the stored primal and dual"),
        ({"dual": -1e9}, "is not that of the stored primal and dual"),
        ({"primal": 10**400}, "steps.jsonl does not say its primal"),
    ],
)
def test_bounds_that_bound_nothing_are_refused(bounded, tmp_path, changes, message):
    data, run = bounded
    run = shutil.copytree(run, tmp_path / "run")
    change_step(run, 1, **changes)
    reseal(run)
    assert message in found(run, data)[1].problem


def test_numbers_of_version_1_are_values_not_bounds(bounded, tmp_path):
    data, run = bounded
    run = shutil.copytree(run, tmp_path / "run")
    header = json.loads((run / "run.json").read_text())
    change_header(run, **header | {"version": 1})
    stored = open_run(run).steps[1].to_json()
    change_step(run, 1, primal=math.nextafter(stored["primal"], 0.0), dual=math.nextafter(stored["dual"], math.inf))
    reseal(run)
    assert all(finding.holds for finding in found(run, data))
    change_step(run, 1, primal=stored["primal"] * (1 + 1e-9))
    assert found(run, data)[1].problem.startswith("the stored primal ")


def test_the_nearest_float_of_what_has_none():
    assert (nearest(Fraction(10) ** 400), nearest(-(Fraction(10) ** 400))) == (math.inf, -math.inf)
