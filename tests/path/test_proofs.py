"""What a run proves holds in exact arithmetic, at any magnitude, and a point owns what it proves."""

from __future__ import annotations

from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest

import pipeline
from pipeline.budget import default_budget, project
from pipeline.engine.engine import Engine
from pipeline.errors import SieveError
from pipeline.maths.rounding import root, square
from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.path.linear import LinearSpace
from pipeline.spec import PathSpec
from pipeline.working.facts import collect
from pipeline.working.lead import Lead
from pipeline.working.solver import LinearPair

pytestmark = pytest.mark.attack


def write_svm(path, x, y):
    lines = (
        f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(map(float, row)) if v)
        for row, label in zip(x, y, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def separable(scale, seed=0, n=60, d=5):
    rng = np.random.default_rng(seed)
    x, v = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = np.where(x @ v > 0, 1, -1)
    return (x + 0.3 * y[:, None] * v / np.linalg.norm(v)) * scale, y


def exact_values(x, y, step):
    z = [[Fraction(float(v)) * int(label) for v in row] for row, label in zip(x, y, strict=True)]
    w, alpha = [Fraction(v) for v in step.w.tolist()], [Fraction(v) for v in step.alpha.tolist()]
    hinge = sum(max(Fraction(0), 1 - sum(a * b for a, b in zip(row, w, strict=True))) for row in z)
    w_alpha = [sum(a * row[j] for a, row in zip(alpha, z, strict=True)) for j in range(len(w))]
    return sum(v * v for v in w) / 2 + Fraction(step.c) * hinge, sum(alpha) - sum(v * v for v in w_alpha) / 2


@pytest.mark.parametrize(
    ("scale", "c", "seed"), [(1e5, 1e4, 0), (1e5, 1e4, 3), (1e7, 1.0, 0), (1e7, 1e4, 3), (1e100, 1e-190, 3)]
)
def test_the_certificates_of_unscaled_separable_data(tmp_path, scale, c, seed):
    """Stored gaps were 0 where the exact ones were a percent: rounding near the margin, times C."""
    x, y = separable(scale, seed)
    run = pipeline.fit_path(write_svm(tmp_path / "rows.svm", x, y), grid=[c], out=tmp_path / "run")
    (step,) = run.steps
    primal, dual = exact_values(x, y, step)
    assert Fraction(step.primal) >= primal >= dual >= Fraction(step.dual)
    assert 0.0 <= float((primal - dual) / primal) <= step.relative_gap <= 1e-4


def test_no_gap_is_negative(tmp_path):
    run = pipeline.fit_path("breast_cancer", epsilon=0.1, out=tmp_path / "run")
    assert all(0.0 <= step.relative_gap <= 1e-4 and step.primal >= step.dual for step in run.steps)


def test_where_float64_cannot_certify_a_line_names_scaling(tmp_path):
    """Rows so large that no w in float64 has them all outside the margin, at a tol below all rounding."""
    x, y = separable(1e7, 5)
    with pytest.raises(
        SieveError, match=r"relative gap stays at .* scale the features, for example to \[-1, 1\]"
    ) as said:
        pipeline.fit_path(write_svm(tmp_path / "rows.svm", x, y), grid=[1e6], tol=1e-15, out=tmp_path / "run")
    assert "\n" not in str(said.value)


def test_verdicts_at_a_tiny_c(tmp_path):
    """a*b*product underflowed: row 2, of exact margin 0.84375, was ZERO."""
    x = np.array([[3, 1], [0, -2], [-2, -4], [-4, -4], [-3, 3], [1, 4], [0, 1], [4, 2]]) * 1e100
    y = [1, -1, 1, 1, -1, 1, 1, -1]
    grid = [4.6875e-202, 6.25e-202, 1.25e-201]
    run = pipeline.fit_path(write_svm(tmp_path / "rows.svm", x, y), grid=grid, rule="it", out=tmp_path / "run")
    small = pipeline.fit_path(
        write_svm(tmp_path / "small.svm", x / 1e100, y),
        grid=[c * 1e200 for c in grid],
        rule="it",
        out=tmp_path / "small",
    )
    decided = 0
    for step, same in zip(run.steps, small.steps, strict=True):
        f = (x / 1e100 * np.array(y)[:, None]) @ same.w
        assert not np.any((step.verdicts == ZERO) & (f < 1 - 1e-3))
        assert not np.any((step.verdicts == UPPER) & (f > 1 + 1e-3))
        decided += int(np.count_nonzero(step.verdicts != KEEP))
    assert decided > 4  # and it still screens


@pytest.fixture
def space():
    data, spec = pipeline.open_dataset("breast_cancer"), PathSpec(memory=default_budget())
    with Engine("inline") as engine:
        yield LinearSpace(
            engine, data, collect(engine, data, spec, None), spec, project(data.n_rows, data.n_features, spec.memory)
        )


def at_zero(space, first_alpha=0.0):
    """w = 0 with alpha = 0 but for one row's."""
    w, alpha = np.zeros(space.data.n_features), space.state.empty()
    alpha[500] = first_alpha
    return LinearPair(alpha, w, w, 0.0)


def test_a_point_proves_what_it_proved_whoever_certifies_another(space):
    """Its bounds missed 525 of 569 true margins once another point had been certified."""
    first = space.certify(1.0, at_zero(space))
    proof = first.proof(2.0, "it")
    before = [array.copy() for array in (*proof.bounds(slice(0, 569)), *first.products, first.pair.alpha)]
    lift = first.lift
    second = space.certify(1.0, space.first(1.0))
    space.solve(1.0, second.pair, np.ones(569, bool), 1e-6, nullcontext)
    after = [*proof.bounds(slice(0, 569)), *first.products, first.pair.alpha]
    assert all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))
    assert first.lift == lift
    assert not np.array_equal(first.margins, second.margins)


def test_alpha_of_a_pair_is_not_written_to(space):
    """A solve that fails half-way, or succeeds, leaves the pair that it started from as it was."""
    pair = space.first(1.0)
    with pytest.raises(ValueError, match="read-only"):
        pair.alpha[0] = 0.5
    before = pair.alpha.copy()
    solved = space.solve(1.0, pair, np.ones(569, bool), 1e-6, nullcontext)
    assert not np.array_equal(solved.alpha, pair.alpha)
    np.testing.assert_array_equal(pair.alpha, before)


@pytest.mark.parametrize("factor", [0.0, 1.0, 1e6])
def test_whatever_the_lead_the_gap_is_reached(space, factor):
    """A lead far off, into any direction, is no more than a start."""
    random = np.random.default_rng(0)
    pair, every = space.first(1.0), np.ones(569, bool)
    lead = Lead(0.9, factor * random.random(569), 0.5, random.random(569))
    point = space.certify(1.0, space.solve(1.0, pair, every, 1e-6, nullcontext, lead))
    assert point.certificate.gap <= 2e-6


@pytest.mark.parametrize("alpha", [-1e-9, 1.0 + 1e-9, np.nan])
def test_an_alpha_outside_its_box_certifies_nothing(space, alpha):
    with pytest.raises(ValueError, match=r"alpha\[500\] = .* is outside \[0, 1\]"):
        space.certify(1.0, at_zero(space, alpha))


def test_a_cost_that_underflows_is_one_line(tmp_path):
    x, y = separable(1.0)
    with pytest.raises(SieveError, match="out of float64's range"):
        pipeline.fit_path(write_svm(tmp_path / "rows.svm", x, y), grid=[1e-320], out=tmp_path / "run")


def exact_rows(space, rows):
    """z_i of some rows, as exact numbers."""
    (shard,) = space.data.shards
    found = shard.load()
    z = found.csr().toarray() * found.labels[:, None]
    return [[Fraction(float(v)) for v in z[i]] for i in rows]


def pair_of(space, rows, alphas):
    """These rows' alpha, w_alpha as it rounds, and just the drift that this is: none where it does not."""
    alpha, z = space.state.empty(), exact_rows(space, rows)
    alpha[rows] = alphas
    exact = [sum(Fraction(a) * row[j] for a, row in zip(alphas, z, strict=True)) for j in range(space.data.n_features)]
    w_alpha = np.array([float(v) for v in exact])
    return LinearPair(alpha, w_alpha, w_alpha, root(off_by(w_alpha, exact)) * (1 + 1e-15))


def off_by(vector, exact):
    return sum((Fraction(float(a)) - b) ** 2 for a, b in zip(vector, exact, strict=True))


def test_alphas_that_are_scaled_have_their_rounding_in_the_drift(space):
    """Half a row is exact, 0.7 times that is not."""
    missed = 0
    for row in range(0, 560, 40):
        pair = pair_of(space, [row], [0.5])
        assert pair.drift == 0.0
        found = space.scaled(space.certify(1.0, pair), 0.7)
        exact = [Fraction(float(found.alpha[row])) * v for v in exact_rows(space, [row])[0]]
        lost = off_by(found.w_alpha, exact)
        assert lost <= Fraction(found.drift) ** 2
        missed += lost > 0
    assert missed > 5


def test_the_vector_of_the_signs_has_its_rounding_in_its_drift(space):
    """What is left of w_alpha without its free rows is not quite the rows at their bound."""
    missed = 0
    for row in range(0, 560, 40):
        pair = pair_of(space, [row, row + 7], [1.0, 0.3])  # at its bound, and free
        v, cost, drift = space.certifier._signs(1.0, pair, square(pair.w_alpha))
        lost = off_by(v, exact_rows(space, [row])[0])
        assert cost == 1.0
        assert lost <= Fraction(drift) ** 2
        missed += lost > Fraction(pair.drift) ** 2
    assert missed > 2  # or the test would not see a drift that is left as it was
