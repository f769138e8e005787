"""The property that defines the product: no screened row is ever a support vector at the true optimum.

References of every accuracy, from a relative gap of 1e-10 to 0.5, with w = w_alpha and with any other w; every rule;
the judge is an independent oracle whose own gap is at most 1e-12.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipeline.maths.verdicts import UPPER, ZERO
from tests.in_memory.screening import UPWARDS, MemoryRows, refer, screen
from tests.maths.problems import KINDS, make_problem, problems, relative_gap, worsened
from tests.oracle import solve

ACCURACIES = [1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5]


def check(problem, optimum, found, what):
    """No verdict and no bound may contradict the optimum, beyond what the oracle itself leaves open."""
    f = optimum.margins.astype(np.float64)
    doubt = np.linalg.norm(problem.z, axis=1) * optimum.distance + 1e-15
    wrong = ((found.verdicts == ZERO) & (f < 1 - doubt)) | ((found.verdicts == UPPER) & (f > 1 + doubt))
    wrong |= (f < found.lower - doubt) | (f > found.upper + doubt)
    i = int(np.argmax(wrong))
    assert not wrong.any(), f"{what}: row {i} has margin {f[i]!r}, bounds {found.lower[i]!r} to {found.upper[i]!r}"


@settings(max_examples=150)
@given(
    problem=problems(),
    decades=st.floats(0, 8),
    ratio=st.floats(math.log(1.0001), math.log(10)).map(math.exp),
    gap=st.sampled_from(ACCURACIES),
    seed=st.integers(0, 2**32),
)
def test_no_verdict_contradicts_the_optimum(problem, decades, ratio, gap, seed):
    assume(math.isfinite(problem.c_min))
    c_ref = problem.c_min * 10**decades
    c = c_ref * ratio
    optimum = problem.solve(c)
    assume(optimum.relative_gap <= 1e-12)
    alpha = worsened(problem, c_ref, problem.solve(c_ref), gap, seed)
    w_alpha = problem.z.T @ alpha
    other = w_alpha * np.random.default_rng(seed).uniform(0.5, 1.5, w_alpha.size)
    rows = MemoryRows.of(problem.z, problem.costs)
    for w in (w_alpha, other):
        pair = refer(rows, c_ref, w, alpha, w_alpha=w if w is w_alpha else None)
        for rule in UPWARDS:
            check(problem, optimum, screen(rows, pair, c, rule), f"{rule}, {w is w_alpha}")
    at_c = worsened(problem, c, optimum, gap, seed)
    pair = refer(rows, c, problem.z.T @ at_c, at_c)
    check(problem, optimum, screen(rows, pair, c, "gap"), "gap")


@pytest.mark.parametrize("kind", KINDS)
def test_references_are_as_bad_as_they_should_be(kind):
    """The test above would be empty if its references were all good: they have the gaps they are asked for."""
    problem = make_problem(5, 80, 10, kind, 1.0)
    c = (problem.c_min if math.isfinite(problem.c_min) else 1.0) * 100
    optimum = problem.solve(c)
    for gap in ACCURACIES[2:-1]:
        found = relative_gap(problem, c, worsened(problem, c, optimum, gap, 1))
        assert gap / 10 < found < gap * 10


@pytest.mark.parametrize(
    ("rule", "kind"), [("bt2", "shifted"), *((r, k) for r in ("bt1", "it") for k in ("plain", "shifted", "duplicates"))]
)
def test_good_references_screen_something(rule, kind):
    """Nor may the rules be safe by saying nothing."""
    problem = make_problem(7, 200, 5, kind, 0.0)
    c_ref = problem.c_min * 300
    optimum = problem.solve(c_ref)
    alpha = np.clip(optimum.alpha.astype(float), 0, c_ref)
    rows = MemoryRows.of(problem.z, problem.costs)
    pair = refer(rows, c_ref, problem.z.T @ alpha, alpha)
    share = np.mean(screen(rows, pair, 1.02 * c_ref, rule).verdicts != 0)
    assert share > (0.7 if rule != "bt2" else 0.02)


@given(problem=problems(largest=(40, 10)), decades=st.floats(0, 4), ratio=st.floats(1.001, 3))
def test_sparse_and_dense_rows_agree_and_it_is_never_looser(problem, decades, ratio):
    assume(math.isfinite(problem.c_min))
    c_ref = problem.c_min * 10**decades
    alpha = worsened(problem, c_ref, problem.solve(c_ref), 1e-5, 0)
    dense, sparse = MemoryRows.of(problem.z, problem.costs), MemoryRows.of(sp.csr_array(problem.z), problem.costs)
    found = {}
    for rule in UPWARDS:
        a, b = (screen(r, refer(r, c_ref, r.z.T @ alpha, alpha), ratio * c_ref, rule) for r in (dense, sparse))
        scale = 1 + np.abs(a.lower) + np.abs(a.upper)
        np.testing.assert_allclose(a.lower / scale, b.lower / scale, atol=1e-6)
        np.testing.assert_allclose(a.upper / scale, b.upper / scale, atol=1e-6)
        found[rule] = a
    undecided = found["bt1"].verdicts == 0
    for rule, ulps in (("bt1", 0), ("bt2", 64)):  # bt2's products come from another BLAS call, of all rows
        spare = ulps * np.finfo(float).eps * (np.abs(found[rule].lower) + np.abs(found[rule].upper))
        assert np.all((found["it"].lower >= found[rule].lower - spare)[undecided])
        assert np.all((found["it"].upper <= found[rule].upper + spare)[undecided])


def test_changed_data_need_no_new_reference():
    """Yesterday's alpha, with 0 for new rows, is feasible today: its ball is valid for today's optimum."""
    problem = make_problem(11, 150, 8, "shifted", 0.0)
    c = problem.c_min * 50
    yesterday = solve(problem.z[:140], c)
    alpha = np.concatenate([np.clip(yesterday.alpha.astype(float), 0, c), np.zeros(10)])
    rows = MemoryRows.of(problem.z, problem.costs)
    found = screen(rows, refer(rows, c, problem.z.T @ alpha, alpha), c, "gap")
    check(problem, problem.solve(c), found, "changed data")
    assert np.mean(found.verdicts != 0) > 0.2
