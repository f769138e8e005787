"""What a run proves holds in exact arithmetic, at any magnitude, and a point that is out of date proves nothing."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import pipeline
from pipeline.budget import default_budget, project
from pipeline.engine.engine import Engine
from pipeline.errors import SieveError
from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.maths.working_set import Outlook
from pipeline.path.certify import Certifier
from pipeline.path.step import Stepper
from pipeline.spec import PathSpec
from pipeline.working.host import LocalHost
from pipeline.working.rows import WorkingRows
from pipeline.working.solver import RowSolver
from pipeline.working.state import collect

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
def certifier():
    data, spec = pipeline.open_dataset("breast_cancer"), PathSpec(memory=default_budget())
    plan = project(data.n_rows, data.n_features, spec.memory)
    with Engine("inline") as engine, collect(engine, data, spec, None) as arrays:
        working = WorkingRows(LocalHost(engine, data, arrays.wide, arrays.lengths), arrays, plan.working_set)
        yield Certifier(engine, data, arrays, working, "it")


def test_a_point_that_was_overwritten_proves_nothing(certifier):
    """Its bounds missed 525 of 569 true margins once another point had been certified."""
    w = np.zeros(certifier.data.n_features)
    first = certifier.point(1.0, w, w, 0.0)
    proof = first.proof(2.0, "it")
    lower, upper = proof.bounds(slice(0, 10))
    assert np.all(lower <= upper)
    assert first.lift == 0.0
    certifier.point(1.0, w + 1.0, w, 0.0)
    stale = [lambda: proof.bounds(slice(0, 10)), lambda: first.proof(2.0, "none").bounds(slice(0, 10))]
    for use in (*stale, lambda: first.lift, lambda: first.margins, lambda: first.products):
        with pytest.raises(RuntimeError, match="overwritten"):
            use()


def test_a_pass_that_was_interrupted_leaves_no_point_behind(certifier, monkeypatch):
    w = np.zeros(certifier.data.n_features)
    point = certifier.point(1.0, w, w, 0.0)
    monkeypatch.setattr("pipeline.path.certify.certifying_products", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        certifier.point(1.0, w + 1.0, w, 0.0)
    with pytest.raises(RuntimeError, match="overwritten"):
        point.proof(2.0, "it").bounds(slice(0, 10))


@pytest.mark.parametrize("alpha", [-1e-9, 1.0 + 1e-9, np.nan])
def test_an_alpha_outside_its_box_certifies_nothing(certifier, alpha):
    certifier.arrays.change_alpha()[500] = alpha
    w = np.zeros(certifier.data.n_features)
    with pytest.raises(ValueError, match=r"alpha\[500\] = .* is outside \[0, 1\]"):
        certifier.point(1.0, w, w, 0.0)


def test_no_step_starts_from_a_point_whose_alpha_is_gone(certifier):
    """A solve that failed before its pass has written alpha: the point before it cannot be brought to another C."""
    w = np.zeros(certifier.data.n_features)
    point, spec = certifier.point(1.0, w, w, 0.0), PathSpec(memory=default_budget())
    stepper = Stepper(certifier.arrays, certifier, RowSolver(certifier.working, None), spec)
    with pytest.raises(ValueError, match="read-only"):
        certifier.arrays.alpha[0] = 0.5
    certifier.arrays.change_alpha()[0] = 0.5
    point.proof(2.0, "it").bounds(slice(0, 10))  # its bounds need no alpha
    for use in (
        lambda: point.alpha,
        lambda: stepper.facts(point, point, Counter(), (0, 0)),
        lambda: stepper.step(point, 2.0, Outlook(), bool, print),
    ):
        with pytest.raises(RuntimeError, match="overwritten"):
            use()


def test_a_cost_that_underflows_is_one_line(tmp_path):
    x, y = separable(1.0)
    with pytest.raises(SieveError, match="out of float64's range"):
        pipeline.fit_path(write_svm(tmp_path / "rows.svm", x, y), grid=[1e-320], out=tmp_path / "run")
