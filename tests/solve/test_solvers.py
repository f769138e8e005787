"""Every solver against the oracle: random boxes and offsets, awkward shapes, and the gap each one claims."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from pipeline.cores import lending
from pipeline.errors import SolverError
from pipeline.solve import dcd, newton_cg, newton_system, solver_named
from pipeline.solve.auto import solve_auto
from pipeline.solve.dcd import FIRST_SCALING, Descent, solve_dcd
from pipeline.solve.liblinear import liblinear_bytes, solve_liblinear
from pipeline.solve.newton import solve_newton
from pipeline.solve.reduced import ReducedProblem
from pipeline.solve.sparse_rows import SparseRows
from tests.maths.problems import KINDS, make_problem, problems
from tests.oracle import solve as oracle

SOLVERS = {"dcd": solve_dcd, "newton": solve_newton, "auto": solve_auto}


def independent_gap(problem, found):
    """P(w) - D(alpha), in extended precision, from the definitions."""
    z = (problem.z.toarray() if problem.is_sparse else problem.z).astype(np.longdouble)
    w, alpha, u, v = (x.astype(np.longdouble) for x in (found.w, found.alpha, problem.u, problem.v))
    w_alpha = v + alpha @ z
    primal = w @ w / 2 - v @ w + u @ np.maximum(0, 1 - z @ w)
    return float(primal - (alpha.sum() - w_alpha @ w_alpha / 2)), float(w @ w + abs(v @ w) + u.sum())


def check(problem, found, target):
    assert found.outcome in ("converged", "limit", "stalled", "failed")
    assert np.all(found.alpha >= 0)
    assert np.all(found.alpha <= problem.u)
    gap, size = independent_gap(problem, found)
    assert gap == pytest.approx(found.gap, rel=1e-6, abs=1e-13 * size)
    if found.outcome == "converged":
        assert found.gap <= target


@pytest.mark.parametrize("name", SOLVERS)
@given(problem=problems(largest=(80, 15)), decades=st.floats(-1, 4), sparse=st.booleans())
def test_each_agrees_with_the_oracle(name, problem, decades, sparse):
    assume(math.isfinite(problem.c_min))
    c = problem.c_min * 10**decades
    optimum = oracle(problem.z, c, problem.costs)
    assume(optimum.relative_gap < 1e-10)
    target = 1e-7 * float(optimum.primal)
    z = sp.csr_array(problem.z) if sparse else problem.z
    reduced = ReducedProblem(z, c * problem.costs, np.zeros(problem.z.shape[1]))
    found = SOLVERS[name](reduced, None, target, seconds=20)
    check(reduced, found, target)
    if name != "dcd":
        assert found.converged
    distance = np.linalg.norm(found.w - optimum.w.astype(float))
    assert distance <= math.sqrt(2 * max(found.gap, 0)) + optimum.distance + 1e-9


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_folded_problem_gives_the_same_w_as_the_full_one(name, kind):
    """Decide rows as the optimum has them: ZERO rows dropped, UPPER rows folded; w and the gap must not change."""
    full = make_problem(9, 120, 8, kind, 1.0)
    c = 30 * full.c_min if math.isfinite(full.c_min) else 0.3
    optimum = oracle(full.z, c, full.costs)
    f, u = optimum.margins.astype(float), c * full.costs
    zero, upper = f > 1 + 1e-6, f < 1 - 1e-6
    keep = ~(zero | upper)
    v = full.z[upper].T @ u[upper]
    reduced = ReducedProblem(full.z[keep], u[keep], v)
    target = 1e-10 * float(optimum.primal)
    found = SOLVERS[name](reduced, None, target, seconds=20)
    check(reduced, found, target)
    np.testing.assert_allclose(found.w, optimum.w.astype(float), atol=1e-3 * (1 + np.abs(found.w).max()))
    g = full.z @ found.w
    alpha = np.where(upper, u, 0.0)
    alpha[keep] = found.alpha
    whole = ReducedProblem(full.z, u, np.zeros(8))
    rest = u[upper] @ np.maximum(0, g[upper] - 1) + u[zero] @ np.maximum(0, 1 - g[zero])
    assert whole.gap(found.w, alpha) == pytest.approx(found.gap + rest, abs=1e-9 * float(optimum.primal))


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("seed", range(6))
def test_random_offsets_and_boxes(name, seed):
    rng = np.random.default_rng(seed)
    z, v = rng.standard_normal((60, 7)), rng.standard_normal(7) * 10 ** rng.uniform(-2, 2)
    u = 10.0 ** rng.uniform(-3, 2, 60) * (rng.random(60) < 0.9)
    problem = ReducedProblem(z, u, v)
    start = u * rng.random(60)
    target = 1e-8 * (1 + abs(problem.gap(v, np.zeros(60))))
    found = [SOLVERS[name](problem, s, target, seconds=20) for s in (None, start)]
    for solution in found:
        check(problem, solution, target)
        assert solution.converged
    np.testing.assert_allclose(found[0].w, found[1].w, atol=3 * math.sqrt(target))


AWKWARD = {
    "no rows": (np.zeros((0, 3)), np.zeros(0), np.array([1.0, 2.0, 3.0])),
    "one row": (np.array([[3.0, 4.0]]), np.array([1.0]), np.zeros(2)),
    "zero rows": (np.zeros((4, 2)), np.ones(4), np.array([1.0, 0.0])),
    "one zero row among others": (np.array([[1.0], [0.0], [2.0]]), np.ones(3), np.zeros(1)),
    "duplicate rows": (np.tile([[1.0, -1.0]], (50, 1)), np.full(50, 0.3), np.zeros(2)),
    "opposite rows": (np.array([[1.0], [-1.0]]), np.ones(2), np.zeros(1)),
    "an empty box": (np.array([[1.0], [2.0]]), np.zeros(2), np.array([0.5])),
    "a tiny box": (np.array([[1.0, 1.0], [2.0, -1.0]]), np.full(2, 1e-12), np.zeros(2)),
    "a huge box": (np.array([[1.0, 1.0], [2.0, -1.0]]), np.full(2, 1e12), np.zeros(2)),
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("sparse", [False, True])
def test_awkward_problems(name, case, sparse):
    z, u, v = AWKWARD[case]
    problem = ReducedProblem(sp.csr_array(z) if sparse else z, u, v)
    target = 1e-10 * (1 + float(u.sum()))
    found = SOLVERS[name](problem, None, target, seconds=5)
    check(problem, found, target)
    assert found.converged


@pytest.mark.parametrize("name", SOLVERS)
def test_repeat_runs_are_identical_to_the_bit(name):
    problem = make_problem(3, 150, 10, "plain", 1.0)
    reduced = ReducedProblem(sp.csr_array(problem.z), 1e4 * problem.c_min * problem.costs, np.zeros(10))
    first, second = (SOLVERS[name](reduced, None, 1e-7 * float(reduced.u.sum())) for _ in range(2))
    np.testing.assert_array_equal(first.alpha, second.alpha)
    np.testing.assert_array_equal(first.w, second.w)
    assert first.converged


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("known", [0, 9])
def test_newton_by_conjugate_gradients(monkeypatch, sparse, known):
    """One-hot-like columns of very different frequency, with the direct solvers switched off."""
    monkeypatch.setattr(newton_system, "DIRECT_SIZE", 0)
    monkeypatch.setattr(newton_cg, "FREQUENT", known)
    rng = np.random.default_rng(8)
    z = (rng.random((400, 60)) < 10.0 ** rng.uniform(-2.5, 0, 60)) * np.where(rng.random(400) < 0.5, 1.0, -1.0)[:, None]
    problem = ReducedProblem(sp.csr_array(z) if sparse else z, np.full(400, 3.0), np.zeros(60))
    optimum = oracle(z, 3.0)
    target = 1e-7 * float(optimum.primal)
    found = solve_newton(problem, None, target, seconds=20)
    check(problem, found, target)
    assert found.converged
    assert np.linalg.norm(found.w - optimum.w.astype(float)) <= math.sqrt(2 * found.gap) + optimum.distance


@pytest.mark.parametrize("shrink", [True, False])
def test_dcd_with_and_without_shrinking(shrink):
    problem = make_problem(5, 200, 12, "shifted", 0.0)
    c = 50 * problem.c_min
    reduced = ReducedProblem(sp.csr_array(problem.z), np.full(200, c), np.zeros(12))
    target = 1e-8 * c * 200
    found = solve_dcd(reduced, None, target, shrink=shrink, seed=4)
    check(reduced, found, target)
    assert found.converged


@pytest.mark.parametrize("sparse", [True, False])
def test_dcd_looks_at_its_gap_in_parts_which_are_all_rows_whatever_cores_are_lent(monkeypatch, sparse):
    problem = make_problem(7, 203, 12, "shifted", 0.0)
    z = sp.csr_array(problem.z) if sparse else problem.z
    reduced = ReducedProblem(z, 50 * problem.c_min * problem.costs, problem.z[0])
    rng = np.random.default_rng(3)
    alpha = reduced.u * np.clip(rng.uniform(-1, 2, 203), 0, 1)  # a third at 0, a third at u_i

    def looked():
        run = Descent(reduced, alpha, shrink=True, seed=2)
        return run, run.judged(0.0)

    whole, _ = looked()
    monkeypatch.setattr(dcd, "NONZEROS_A_PART", reduced.nnz // 17)
    runs = []
    for cores in (1, 2, 5):
        with lending(lambda cores=cores: cores):
            run, found = looked()
            assert len(run.parts) == 17
            check(reduced, found, 0.0)
            np.testing.assert_array_equal(run.duals["margin"], whole.duals["margin"])
            for one, other in zip(run.order, whole.order, strict=True):
                np.testing.assert_array_equal(one, other, "the same rows are set aside")
            runs.append(solve_dcd(reduced, alpha, 1e-9 * found.gap))
    for found in runs[1:]:
        assert found.gap == runs[0].gap
        np.testing.assert_array_equal(found.alpha, runs[0].alpha)
        np.testing.assert_array_equal(found.w, runs[0].w)


def test_dcd_looks_at_its_gap_over_many_columns_as_over_few():
    """Where w is larger than caches its entries are asked for beforehand."""
    problem = make_problem(7, 203, 12, "shifted", 0.0)
    few = ReducedProblem(sp.csr_array(problem.z), 50 * problem.c_min * problem.costs, problem.z[0])
    spread = np.arange(12) * 90_000
    known = np.zeros(1 << 20)
    known[spread] = few.known
    many = SparseRows(few.z.indptr, spread[few.z.indices].astype(np.int32), few.z.data, 1 << 20)
    alpha = few.u * np.linspace(0, 1, 203)
    runs = [Descent(one, alpha, shrink=True, seed=2) for one in (few, ReducedProblem(many, few.u, known))]
    assert runs[0].exact_gap() == runs[1].exact_gap()
    np.testing.assert_array_equal(runs[0].duals["margin"], runs[1].duals["margin"])


def test_subspace_steps_never_lower_the_dual_and_keep_w_and_their_images():
    problem = make_problem(4, 300, 40, "plain", 1.0)
    reduced = ReducedProblem(sp.csr_array(problem.z), 1e3 * problem.c_min * problem.costs, np.ones(40))
    run = Descent(reduced, np.zeros(300), shrink=True, seed=1)
    run.exact_gap()  # every solve begins with a look
    duals = []
    for _ in range(60):
        run.burst(0.0)
        if run.sweeps <= FIRST_SCALING:
            assert not any(each.size for each in run.features[1:]), "before steps there is nothing to remember"
            continue
        steps = zip((run.duals["step"], run.duals["last"]), run.features[2:], strict=True)
        w = reduced.combine(run.alpha)
        duals.append(run.alpha.sum() - w @ w / 2)
        np.testing.assert_allclose(run.w, w, atol=1e-9)
        for step, image in steps:
            np.testing.assert_allclose(image, reduced.z.combined(step), atol=1e-9)
        if len(duals) % 4 == 3:  # a look between two steps takes rows back and sums w afresh
            run.exact_gap()
        np.testing.assert_allclose(run.features[1], reduced.combine(run.duals["old"]), atol=1e-9)
    assert run.sweeps > 100
    assert np.all(np.diff(duals) >= -1e-10 * abs(duals[-1]))


def test_subspace_steps_shorten_the_tail(monkeypatch):
    """Many free alphas, ill-conditioned rows: without the steps it takes about twice as many sweeps."""
    rng = np.random.default_rng(6)
    z = rng.standard_normal((200, 300)) * 10.0 ** rng.uniform(-1.5, 0, 300)
    problem = ReducedProblem(z, np.full(200, 1e6), np.zeros(300))
    optimum = solve_newton(problem, None, 1e-9)
    target = 1e-5 * float(optimum.alpha.sum())
    sweeps = [solve_dcd(problem, None, target).iterations]
    monkeypatch.setattr(dcd, "FIRST_STEP", 10**9)
    sweeps.append(solve_dcd(problem, None, target).iterations)
    assert sweeps[1] > 1.5 * sweeps[0]


def test_looking_at_all_rows_again_saves_sweeps(monkeypatch):
    """At a large C rows are set aside that must move; without a look in time they are missed until the very end."""
    x, y = load_breast_cancer(return_X_y=True)
    z = np.where(y == 1, 1.0, -1.0)[:, None] * (2 * (x - x.min(axis=0)) / np.ptp(x, axis=0) - 1)
    problem = ReducedProblem(z, np.full(569, 100.0), np.zeros(30))
    target = 1e-6 * float(solve_newton(problem, None, 1e-6).alpha.sum())
    sweeps = [solve_dcd(problem, None, target).iterations]
    monkeypatch.setattr(dcd, "LEAST_WORK", math.inf)
    sweeps.append(solve_dcd(problem, None, target).iterations)
    assert sweeps[1] > 1.5 * sweeps[0]


@pytest.mark.parametrize("c", [1e-3, 1.0, 1e6])
def test_auto_without_a_target_does_what_it_can(c):
    problem = make_problem(9, 120, 8, "plain", 1.0)
    reduced = ReducedProblem(sp.csr_array(problem.z), c * problem.c_min * problem.costs, np.zeros(8))
    found = solve_auto(reduced, None, 0.0, seconds=20)
    gap, size = independent_gap(reduced, found)
    assert gap <= 1e-9 * size
    assert found.outcome != "failed"


def test_an_answer_of_dcd_is_w_alpha():
    """Also where another w would have a smaller gap: a path multiplies rows by one vector, not by two."""
    problem = make_problem(7, 400, 10, "shifted", 0.0)
    c = 100 * problem.c_min
    before, now = (ReducedProblem(problem.z, np.full(400, x), np.zeros(10)) for x in (c / 1.05, c))
    near = solve_newton(before, None, 1e-10)
    w_alpha = now.combine(1.05 * near.alpha)
    target = 1.01 * 0.05**2 * float(near.w @ near.w) / 2
    assert now.gap(w_alpha / 1.05, 1.05 * near.alpha) <= target < now.gap(w_alpha, 1.05 * near.alpha)
    found = solve_auto(now, 1.05 * near.alpha, target)
    check(now, found, target)
    assert (found.outcome, found.solver, found.at_w_alpha) == ("converged", "dcd", True)
    np.testing.assert_allclose(found.w, now.combine(found.alpha), rtol=1e-12)


def test_limits_are_said_and_the_gap_is_true():
    problem = make_problem(1, 200, 20, "plain", 0.0)
    reduced = ReducedProblem(problem.z, np.full(200, 1e6 * problem.c_min), np.zeros(20))
    few = solve_dcd(reduced, None, 0.0, most_sweeps=3)
    assert (few.outcome, few.iterations) == ("limit", 3)
    check(reduced, few, 0.0)
    for solver in SOLVERS.values():
        short = solver(reduced, None, 0.0, seconds=0.0)
        assert short.outcome in ("limit", "stalled")
        check(reduced, short, 0.0)


@pytest.mark.parametrize("name", SOLVERS)
def test_overflow_is_an_outcome_and_not_a_number(name):
    problem = ReducedProblem(np.array([[1e200, 1.0], [1.0, 1e200]]), np.ones(2), np.zeros(2))
    with np.errstate(all="ignore"):
        found = SOLVERS[name](problem, None, 1e-6, seconds=2)
    assert found.outcome != "converged" or found.gap <= 1e-6


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="2 rows of 3 features"):
        ReducedProblem(np.ones((2, 3)), np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="finite"):
        ReducedProblem(np.ones((2, 3)), np.array([1.0, np.inf]), np.ones(3))


class TestLiblinear:
    """LIBLINEAR as it is."""

    def problem(self, fold=True, n=150):
        problem = make_problem(2, n, 6, "shifted", 0.0)
        rng = np.random.default_rng(0)
        v = 0.5 * rng.standard_normal(6) if fold else np.zeros(6)
        return ReducedProblem(sp.csr_array(problem.z), np.full(n, 5 * problem.c_min), v)

    @pytest.mark.parametrize("fold", [True, False])
    def test_both_encodings(self, fold):
        problem = self.problem(fold)
        truth = solve_newton(problem, None, 1e-12)
        found = solve_liblinear(problem, 1e-3, tolerance=1e-6)
        check(problem, found, 1e-3)
        assert found.gap < 1e-4
        np.testing.assert_allclose(found.w, truth.w, atol=1e-3)

    def test_it_never_prints_and_never_changes_the_matrix(self, capfd):
        problem = self.problem()
        before = [x.copy() for x in (problem.z.data, problem.z.indices, problem.z.indptr)]
        solve_liblinear(problem)
        for old, new in zip(before, (problem.z.data, problem.z.indices, problem.z.indptr), strict=True):
            np.testing.assert_array_equal(old, new)
        assert capfd.readouterr() == ("", "")

    def test_the_cap_is_reported_and_others_finish(self):
        x, y = load_breast_cancer(return_X_y=True)
        z = (2 * y - 1)[:, None] * (x - x.mean(0)) / x.std(0)
        problem = ReducedProblem(z, np.full(569, 100.0), np.zeros(30))
        found = solve_liblinear(problem, 1e-3)
        assert (found.outcome, found.iterations) == ("limit", 300)
        check(problem, found, 1e-3)
        assert solver_named("liblinear").run(problem, None, 1e-3).converged

    def test_others_solve_where_the_fold_is_beyond_float64(self):
        """K, a product of two lengths, is 0 here; the library was given numbers that are none."""
        problem = ReducedProblem(1e150 * np.array([[1.0, 0.5], [0.5, -1.0]]), np.full(2, 1e-300), np.full(2, 1e-200))
        found = solve_liblinear(problem)
        assert (found.outcome, found.alpha.tolist()) == ("failed", [0.0, 0.0])
        assert found.gap == problem.gap(found.w, found.alpha)
        target = 1e-9 * found.gap
        assert solver_named("liblinear").run(problem, None, target).converged

    def test_costs_by_row_are_refused_early(self):
        with pytest.raises(SolverError, match="one by one"):
            solve_liblinear(ReducedProblem(np.eye(2), np.array([1.0, 2.0]), np.zeros(2)))

    def test_its_memory_is_counted(self):
        problem = self.problem()
        assert liblinear_bytes(problem) > 16 * problem.nnz

    def test_threads_get_the_same_answer(self):
        problem = self.problem()
        found = [None] * 4

        def work(k):
            found[k] = solve_liblinear(problem).alpha

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for alpha in found[1:]:
            np.testing.assert_array_equal(alpha, found[0])

    @pytest.mark.parametrize("n", [1, 2])
    def test_one_and_two_rows(self, capfd, n):
        problem = ReducedProblem(np.array([[3.0, 4.0], [1.0, 0.0]])[:n], np.ones(n), np.zeros(2))
        found = solve_liblinear(problem, 1e-4, tolerance=1e-8)
        check(problem, found, 1e-4)
        assert found.converged
        assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("solver", ["auto", "dcd", "newton"])
def test_a_pair_says_as_much_as_the_folded_vector(solver, sparse):
    problem = make_problem(8, 200, 15, "plain", 1.0)
    rng = np.random.default_rng(2)
    z, u, v = problem.z, 40 * problem.c_min * problem.costs, 0.1 * rng.standard_normal(15)
    at, target = rng.uniform(0, 1, 200) * u, 1e-7 * float(u.sum())
    rows = sp.csr_array(z) if sparse else np.asarray(z)
    plain, pair = ReducedProblem(rows, u, v), ReducedProblem(rows, u, v + at @ z, at)
    np.testing.assert_allclose(pair.v, v, atol=1e-10)
    np.testing.assert_allclose(pair.combine(u), plain.combine(u), atol=1e-10)
    for start in (None, at, 0.5 * u):
        found = solver_named(solver).run(pair, start, target)
        check(plain, found, target)
        assert found.converged
