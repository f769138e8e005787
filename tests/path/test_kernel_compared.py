"""The benchmarks of kernels against LIBSVM: what they say of a peer, and of a path that had to stop, is so."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.solve.gram.auto import solve_gram_auto
from pipeline.solve.gram.libsvm import solve_libsvm
from pipeline.solve.gram.problem import GramProblem
from tests.bench import svc
from tests.bench.kernel import Line, Ours, our_path
from tests.bench.kernel_sets import open_set
from tests.bench.measure import Seconds
from tests.bench.paper.approaches import reduced
from tests.bench.svc import Fit, Theirs, fit


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return open_set("bcd", tmp_path_factory.mktemp("no data"), tmp_path_factory.mktemp("set"))


def test_the_gap_of_svc_is_that_of_its_own_problem(rows):
    """With its bias: the gap goes to 0 with tol, and never below."""
    gaps = [fit(rows, 10.0, 1 / 30, tolerance).gap for tolerance in (0.3, 1e-3, 1e-6)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 1e-3
    assert -1e-9 < gaps[2] < 1e-6


def test_the_loosest_tol_that_reaches_the_gap_counts_or_the_tightest(rows, monkeypatch):
    reached = {1e-3: 5e-4, 1e-4: 2e-4, 1e-5: 5e-5, 1e-6: 1e-6}
    monkeypatch.setattr(svc, "fit", lambda rows, c, gamma, tol: Fit(Seconds(-math.log10(tol), 1.0), c * reached[tol]))
    found = Theirs()
    for c in (0.1, 1.0, 1000.0):
        found.ask(rows, c, 0.1)
    assert [each.took.wall for each in found.tight.values()] == pytest.approx([3, 5, 6])
    assert [each.took.wall for each in found.default.values()] == pytest.approx([3, 3, 3])
    assert found.arrived == 2


def test_the_mean_of_the_c_asked_for_stands_for_all(rows):
    run = SimpleNamespace(steps=[None] * 50)
    line = Line(rows, 1.0, Ours(run, [Seconds(2.0, 1.0), Seconds(4.0, 1.0)], False), Theirs())
    assert line.ratios({1.0: Fit(Seconds(0.5, 0.4), 0.0), 2.0: Fit(Seconds(0.7, 0.4), 0.0)}) == pytest.approx((10, 20))
    assert all(map(math.isnan, line.ratios({})))


def test_a_path_that_is_out_of_time_has_the_steps_that_it_made(rows, tmp_path):
    found = our_path(rows, 1.0, 0.0, tmp_path / "run")
    assert found.stopped
    assert len(found.run.steps) == 1
    assert not found.run.header.is_finished


def test_the_reduced_problem_has_the_optimum_of_the_whole(rows):
    whole = GramProblem(rows.gram(1 / 30), np.full(rows.n, 5.0), np.zeros(rows.n))
    f = whole.margins(solve_gram_auto(whole, None, 1e-6).alpha)
    verdicts = np.select([f > 1.05, f < 0.95], [ZERO, UPPER], KEEP)
    kept, upper = (np.flatnonzero(verdicts == verdict) for verdict in (KEEP, UPPER))
    assert 0 < kept.size < upper.size + kept.size < rows.n
    alpha = np.zeros(rows.n)
    alpha[upper], alpha[kept] = 5.0, solve_libsvm(reduced(whole, kept, upper), tolerance=1e-6).alpha
    f = whole.margins(alpha)
    assert whole.gap(alpha, f) < 1e-5 * (alpha.sum() - alpha @ f / 2)
