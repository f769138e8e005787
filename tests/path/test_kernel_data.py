"""Paths with RBF kernels on the paper's toy example and small sets (D01 to D04), against a dense Q in float64 that
shares no code with the pipeline.

C comes in pairs from 2 to 1,000 C_min: a far one, for which the working set is large, and one nearby, at which rules
decide many rows. The optimum is known by a solution of gap g over all rows: z_i . w* is within sqrt(2 g) of its
margins, as every |z_i| = 1, whoever found it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import pipeline
from pipeline.data.dataset import open_shards
from pipeline.maths.verdicts import UPPER, ZERO
from pipeline.runs.run import StepView
from pipeline.solve.gram.auto import solve_gram_auto
from pipeline.solve.gram.libsvm import solve_libsvm
from pipeline.solve.gram.problem import GramProblem
from tests.bench.kernel_sets import SETS, KernelSet, open_set, write_rows
from tests.bench.paper.toy import toy
from tests.conftest import DEVELOPMENT_DATA

PLACES = (2.0, 2.1, 45.0, 47.0, 950.0, 1000.0)
GAMMAS = (0.1, 1.0, 10.0)
TOL = 1e-4
UNIT = 2.0**-53
FEATURES = 250  # no set has more
MOST = 2500  # rows: of satimage, which has more, every other; what a dense Q costs goes with their square
SMALL = 1000  # rows, of which LIBSVM is given twice as many
REAL = [pytest.param(name, marks=pytest.mark.shared_data) for name in ("dna", "digit1", "satimage")]


@pytest.fixture(scope="module", params=["toy", "bcd", *REAL])
def rows(request, tmp_path_factory) -> KernelSet:
    if request.param == "toy":
        made = toy(seed=0)
        return KernelSet("toy", made.x, made.y, write_rows(tmp_path_factory.mktemp("set") / "toy", made.x, made.y))
    if SETS[request.param].file and not DEVELOPMENT_DATA.is_dir():
        pytest.skip("the development data sets are not here")
    folder = tmp_path_factory.mktemp("set")
    found = open_set(request.param, DEVELOPMENT_DATA, folder)
    if found.n <= MOST:
        return found
    x, y = found.x[::2], found.y[::2]
    return KernelSet(found.name, x, y, write_rows(folder / "half", x, y))


@pytest.fixture(scope="module", params=GAMMAS, ids=lambda gamma: f"{gamma:g}/d")
def path(request, rows, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    settings = {"kernel": "rbf", "gamma": f"{request.param}/d", "grid": PLACES, "grid_in_c_min": True}
    run = pipeline.fit_path(rows.shards, out=out, tol=TOL, scheduler="inline", **settings)
    assert run.spec.gamma == pytest.approx(request.param / rows.x.shape[1], rel=1e-15)
    return run, Dense(rows.gram(run.spec.gamma))


@dataclass(frozen=True)
class Truth:
    """Margins at an alpha whose gap is known, and how far those at the optimum can be from them."""

    primal: float
    dual: float
    margins: np.ndarray
    away: float


@dataclass(frozen=True)
class Dense:
    """All rows' products; every cost is 1."""

    q: np.ndarray

    def at(self, c: float) -> GramProblem:
        n = len(self.q)
        return GramProblem(self.q, np.full(n, c), np.zeros(n))

    def values(self, c: float, alpha: np.ndarray) -> tuple[float, float, np.ndarray, float]:
        """Return P at w = w_alpha, D, the margins, and what float64 may have done to either value."""
        f = self.q @ alpha
        square, total = float(alpha @ f), float(alpha.sum())
        most = (len(f) + FEATURES) * UNIT  # of a sum: over n rows, and over the features in a distance
        off = most * (total**2 + c * len(f) * (1 + total))
        return square / 2 + c * float(np.maximum(0.0, 1.0 - f).sum()), total - square / 2, f, off

    def truth(self, c: float, alpha: np.ndarray, primal: float) -> Truth:
        """Solve from an alpha to a gap of a millionth of what is asked of the path."""
        found = solve_gram_auto(self.at(c), alpha, 1e-6 * TOL * primal)
        assert np.all((found.alpha >= 0.0) & (found.alpha <= c))
        high, low, f, off = self.values(c, found.alpha)
        assert high - low <= 1e-3 * TOL * primal
        return Truth(high + off, low - off, f, float(np.sqrt(2 * (high - low + 2 * off))) + 1e-9)


def test_certificates_bound_what_a_dense_matrix_gives(path):
    run, dense = path
    assert len(run.steps) == len(PLACES)
    assert run.header.c_min == pytest.approx(1 / dense.q.sum(axis=1).max(), rel=1e-9)
    for step in run.steps:
        primal, dual, _, off = dense.values(step.c, step.alpha)
        assert np.all((step.alpha >= 0.0) & (step.alpha <= step.c))
        assert primal - off <= step.primal <= primal + 0.01 * TOL * primal
        assert dual + off >= step.dual >= dual - 0.01 * TOL * primal
        assert (step.primal - step.dual) / step.primal <= TOL
        if len(dense.q) <= SMALL:
            agree_with_libsvm(step, dense)


def agree_with_libsvm(step: StepView, dense: Dense) -> None:
    """LIBSVM without its bias has values on the right sides of the step's."""
    primal, dual, _, off = dense.values(step.c, solve_libsvm(dense.at(step.c), tolerance=1e-6).alpha)
    assert primal - dual <= 10 * TOL * primal
    assert step.primal >= dual - off
    assert step.dual <= primal + off


def test_no_verdict_and_no_bound_contradicts_the_optimum(path, rows):
    """The path's verdicts, and each rule's bounds from the C before."""
    run, dense = path
    decided, data = 0, open_shards(rows.shards)
    for before, step in zip(run.steps[::2], run.steps[1::2], strict=True):
        for each in (before, step):
            true = dense.truth(each.c, each.alpha, each.primal)
            assert each.primal >= true.dual
            assert each.dual <= true.primal
            contradict_nothing(each.verdicts, true)
        decided += np.count_nonzero(step.verdicts)
        for rule in ("bt1", "bt2", "it", "gap"):
            found = pipeline.screen(data, before, step.c, rule, scheduler="inline")
            assert np.all(found.lower <= true.margins + true.away)
            assert np.all(found.upper >= true.margins - true.away)
            contradict_nothing(found.verdicts, true)
    assert decided > 0.1 * len(PLACES) / 2 * rows.n


def contradict_nothing(verdicts: np.ndarray, true: Truth) -> None:
    assert np.all(true.margins[verdicts == ZERO] > 1.0 - true.away)
    assert np.all(true.margins[verdicts == UPPER] < 1.0 + true.away)
