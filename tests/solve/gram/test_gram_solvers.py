"""Every solver of a Gram matrix against the oracle: folds, boxes, singular matrices, and the gap each one claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from pipeline.solve.gram import GRAM_SOLVERS, GramProblem, gram_solver_named
from pipeline.solve.gram.kernels import clipped_search
from pipeline.solve.gram.libsvm import solve_libsvm
from pipeline.solve.gram.system import LOOK, GramSystems
from tests.maths.problems import KINDS, make_problem, problems
from tests.oracle import solve as oracle


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """As whoever calls a solver has it: small systems on many threads that are busy take many times as long."""
    with threadpool_limits(1):
        yield


OWN = ("auto", "projected", "newton")  # what is not LIBSVM
ARRIVES = ("auto", "newton")


def independent_gap(problem, alpha):
    """P(w_alpha) - D(alpha), but for |v|^2/2 in both, in extended precision, from the definitions."""
    q, u, b, alpha = (x.astype(np.longdouble) for x in (problem.q, problem.u, problem.b, alpha))
    square = alpha @ q @ alpha
    primal = square / 2 + u @ np.maximum(0, 1 - q @ alpha - b)
    return float(primal - (alpha.sum() - square / 2 - alpha @ b))


def check(problem, found, target):
    assert found.outcome in ("converged", "limit", "stalled", "failed")
    assert np.all((found.alpha >= 0) & (found.alpha <= problem.u))
    sizes = np.abs(problem.q) @ found.alpha + np.abs(problem.b) + 1  # of what is summed into each margin
    rounding = 1e-16 * (5 + len(sizes)) * float(problem.u @ sizes)
    assert independent_gap(problem, found.alpha) == pytest.approx(found.gap, rel=1e-6, abs=rounding)
    assert found.converged == (found.gap <= target)


def dual(problem, alpha):
    return float(alpha.sum() - alpha @ problem.q @ alpha / 2 - alpha @ problem.b)


@pytest.mark.parametrize("name", OWN)
@given(made=problems(largest=(80, 15)), decades=st.floats(-1, 4), digits=st.sampled_from([6, 10]))
def test_each_agrees_with_the_oracle(name, made, decades, digits):
    """Without a fold; rows fewer than features and more, so that Q is of full rank or singular."""
    assume(math.isfinite(made.c_min))
    c = made.c_min * 10**decades
    optimum = oracle(made.z, c, made.costs)
    assume(optimum.relative_gap < 1e-11)
    problem = GramProblem(made.z @ made.z.T, c * made.costs, np.zeros(len(made.z)))
    target = 10.0**-digits * float(optimum.primal)
    found = gram_solver_named(name).run(problem, None, target)
    check(problem, found, target)
    if name in ARRIVES:
        assert found.converged
    w = made.z.T @ found.alpha
    assert np.linalg.norm(w - optimum.w.astype(float)) <= math.sqrt(2 * max(found.gap, 0)) + optimum.distance + 1e-8


@pytest.mark.parametrize("name", ARRIVES)
def test_ten_digits_where_sigma_times_the_rounding_of_f_is_more(name):
    z = np.tile([[1.82675656, -3.07833191]], (2, 1))
    problem = GramProblem(z @ z.T, np.full(2, 390.22), np.zeros(2))
    target = 1e-10 / (2 * 12.8)  # of w* = z/|z|^2, whose primal value is 1/(2 |z|^2)
    found = gram_solver_named(name).run(problem, None, target)
    check(problem, found, target)
    assert found.converged


@pytest.mark.parametrize("name", GRAM_SOLVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_folded_problem_has_the_optimum_of_the_full_one(name, kind):
    """Decide rows as the optimum has them: ZERO rows dropped, UPPER rows folded; w and the gap must not change."""
    full = make_problem(9, 120, 8, kind, 1.0)
    c = 30 * full.c_min if math.isfinite(full.c_min) else 0.3
    optimum = oracle(full.z, c, full.costs)
    f, u = optimum.margins.astype(float), c * full.costs
    upper, keep = f < 1 - 1e-3, np.abs(f - 1) <= 1e-3
    keep[:40], upper[:40] = True, False  # and some more, which the solver has to bring to their bounds
    fold = np.where(upper, u, 0.0)
    q = full.z @ full.z.T
    problem = GramProblem(q[np.ix_(keep, keep)], u[keep], q[keep] @ fold)
    target = 1e-9 * float(optimum.primal)
    found = gram_solver_named(name).run(problem, None, target)
    check(problem, found, target)
    assert found.converged
    alpha = fold.copy()
    alpha[keep] = found.alpha
    whole = GramProblem(q, u, np.zeros(120))
    assert dual(whole, alpha) == pytest.approx(float(optimum.dual), rel=1e-8)
    np.testing.assert_allclose(q @ alpha, f, atol=1e-3)


def rbf(gamma, n=200):
    """Products of breast cancer's rows, scaled: nearly all ones for a small gamma, nearly the identity for a large."""
    x, y = load_breast_cancer(return_X_y=True)
    x = 2 * (x - x.min(axis=0)) / np.ptp(x, axis=0) - 1
    y = np.where(y == 1, 1.0, -1.0)[:n]
    return rbf_kernel(x[:n], gamma=gamma) * y[:, None] * y[None, :]


@pytest.mark.parametrize("name", ARRIVES)
@pytest.mark.parametrize("gamma", [1e-8, 1e-4, 1 / 300, 1 / 30, 1 / 3, 10.0])
@pytest.mark.parametrize("c", [1e-6, 1e-2, 1.0, 1e2, 1e4, 1e8])
def test_any_gamma_and_any_c(name, gamma, c):
    """A relative gap of 1e-6, or what the rounding of the margins leaves of it: that is eps sum |alpha| in each.

    Also from the farthest start: there newton's first sigma is too large by far.
    """
    problem = GramProblem(rbf(gamma), np.full(200, c), np.zeros(200))
    for start in (None, problem.u):
        found = gram_solver_named(name).run(problem, start, 0.0)
        check(problem, found, 0.0)
        rounding = 100 * np.finfo(float).eps * found.alpha.sum() * problem.u.sum()
        assert found.gap <= 1e-6 * dual(problem, found.alpha) + rounding


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
def test_a_path(gamma):
    """C grows by a twentieth; every step starts from the one before, and takes few rounds."""
    q = rbf(gamma / 30)
    c = 1 / q.sum(axis=1).max()
    alpha, rounds = np.full(200, c), []
    while c < 1e3:
        c *= 1.05
        problem = GramProblem(q, np.full(200, c), np.zeros(200))
        target = 1e-7 * dual(problem, np.minimum(1.05 * alpha, c))
        found = gram_solver_named("auto").run(problem, 1.05 * alpha, target)
        check(problem, found, target)
        assert found.converged
        alpha = found.alpha
        rounds.append(found.iterations)
    assert np.mean(rounds) < 15


def warm(gamma, c):
    """A problem of a path, and the start that the step before leaves."""
    q = rbf(gamma)
    before, now = (GramProblem(q, np.full(200, x), np.zeros(200)) for x in (c / 1.05, c))
    return now, 1.05 * gram_solver_named("newton").run(before, None, 1e-8).alpha


def test_auto_takes_projected_where_few_rows_change_sides_and_newton_elsewhere(monkeypatch):
    assert gram_solver_named("auto").run(*warm(10.0, 0.9), 1e-6).solver == "projected"
    problem, start = warm(1 / 300, 10.0)
    found = gram_solver_named("auto").run(problem, start, 1e-6)
    assert (found.solver, found.outcome) == ("newton", "converged")
    monkeypatch.setattr("pipeline.solve.gram.auto.SHARE_INSIDE", 0.0)
    handed_over = gram_solver_named("auto").run(problem, start, 1e-6)
    assert (handed_over.solver, handed_over.outcome) == ("newton", "converged")
    assert 0 < handed_over.iterations - found.iterations < 5  # projected gave up at once


@pytest.mark.parametrize("name", ARRIVES)
def test_rows_at_their_bound_are_exactly_there(name):
    """A free row costs the caller a column of kernel values."""
    q = rbf(1 / 300, 569)
    c = 1 / q.sum(axis=1).max()
    alpha = np.full(569, c)
    while c < 100:
        c *= 2
        problem, start = GramProblem(q, np.full(569, c), np.zeros(569)), np.minimum(2 * alpha, c)
        for share in (1e-4, 1e-6):
            found = gram_solver_named(name).run(problem, start, share * dual(problem, start))
            assert found.converged
            distance = np.minimum(found.alpha, c - found.alpha)
            assert not np.any((distance > 0) & (distance < 1e-9 * c))
        alpha = found.alpha


AWKWARD = {
    "no rows": (np.zeros((0, 3)), np.zeros(0), np.array([1.0, 2.0, 3.0])),
    "one row": (np.array([[3.0, 4.0]]), np.array([1.0]), np.zeros(2)),
    "zero rows": (np.zeros((4, 2)), np.ones(4), np.array([1.0, 0.0])),
    "zero rows in a huge box": (np.zeros((4, 2)), np.full(4, 1e8), np.zeros(2)),
    "one zero row among others": (np.array([[1.0], [0.0], [2.0]]), np.ones(3), np.zeros(1)),
    "duplicate rows": (np.tile([[1.0, -1.0]], (50, 1)), np.full(50, 0.3), np.zeros(2)),
    "opposite rows": (np.array([[1.0], [-1.0]]), np.ones(2), np.zeros(1)),
    "an empty box": (np.array([[1.0], [2.0]]), np.zeros(2), np.array([0.5])),
    "some empty boxes": (np.array([[1.0], [2.0], [1.5]]), np.array([0.0, 1.0, 0.0]), np.array([0.1])),
    "a tiny box": (np.array([[1.0, 1.0], [2.0, -1.0]]), np.full(2, 1e-12), np.zeros(2)),
    "a huge box": (np.array([[1.0, 1.0], [2.0, -1.0]]), np.full(2, 1e8), np.zeros(2)),
    "a fold that decides all": (np.array([[1.0, 1.0], [2.0, -1.0]]), np.ones(2), np.array([50.0, 20.0])),
    "a fold against all": (np.array([[1.0, 1.0], [2.0, -1.0]]), np.ones(2), np.array([-50.0, 20.0])),
}


@pytest.mark.parametrize("name", GRAM_SOLVERS)
@pytest.mark.parametrize("case", AWKWARD)
def test_awkward_problems(name, case):
    z, u, v = AWKWARD[case]
    problem = GramProblem(z @ z.T, u, z @ v)
    target = 1e-10 * (1 + float(u.sum()))
    for start in (None, 3 * u - 1, u / 3):
        found = gram_solver_named(name).run(problem, start, target)
        check(problem, found, target)
        assert found.converged


@pytest.mark.parametrize("name", GRAM_SOLVERS)
@pytest.mark.parametrize("seed", range(6))
def test_random_folds_and_boxes(name, seed):
    rng = np.random.default_rng(seed)
    z, v = rng.standard_normal((60, 7)), rng.standard_normal(7) * 10 ** rng.uniform(-2, 2)
    u = 10.0 ** rng.uniform(-3, 2, 60) * (rng.random(60) < 0.9)
    problem = GramProblem(z @ z.T, u, z @ v)
    target = 1e-8 * (1 + problem.gap(np.zeros(60), problem.b))
    found = [gram_solver_named(name).run(problem, s, target) for s in (None, u * rng.random(60))]
    for solution in found:
        check(problem, solution, target)
        assert solution.converged
    np.testing.assert_allclose(z.T @ found[0].alpha, z.T @ found[1].alpha, atol=3 * math.sqrt(target))


@pytest.mark.parametrize("name", OWN)
def test_overflow_is_an_outcome_and_not_a_number(name):
    problem = GramProblem(np.array([[1e200, -1e308], [-1e308, 1e200]]), np.full(2, 1e3), np.zeros(2))
    found = gram_solver_named(name).run(problem, np.full(2, 1e3), 1e-6)
    assert (found.outcome, math.isfinite(found.gap)) in (("failed", False), ("limit", True), ("stalled", True))


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_the_search_finds_the_best_point_of_the_clipped_ray(seed, n):
    """Against all points of a fine grid up to t = 1; its gain is the true one."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 3))
    u = rng.random(n)
    problem = GramProblem(z @ z.T, u, rng.standard_normal(n))
    alpha = u * rng.choice([0.0, 0.3, 1.0], n)
    step, gradient = rng.standard_normal(n), problem.margins(alpha) - 1
    t, gain = clipped_search(problem.square, np.arange(n), step, problem.q @ step, alpha, u, gradient)
    at = lambda t: dual(problem, np.clip(alpha + t * step, 0, u)) - dual(problem, alpha)  # noqa: E731
    rounding = 1e-11 * (1 + t * t)  # a row that hardly moves reaches its bound at a large t
    assert gain == pytest.approx(at(t), abs=rounding)
    assert gain >= max(at(s) for s in np.linspace(0, 1, 201)) - rounding


class TestSystems:
    """Conjugate gradients where they get there soon, a factorization elsewhere: the same x."""

    @pytest.mark.parametrize("near_singular", [False, True])
    @pytest.mark.parametrize("share", [1.0, 0.9, 0.5])
    def test_a_system_is_solved_either_way(self, near_singular, share):
        """All of Q, most of it, or a block."""
        rng = np.random.default_rng(3)
        x = rng.standard_normal((900, 40))
        distances = ((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)
        q = np.exp(-(1e-3 if near_singular else 0.1) * distances)
        rows = np.flatnonzero(rng.random(900) < share) if share < 1 else np.arange(900)
        right, asked = rng.standard_normal(rows.size), []

        def enough(left):
            asked.append(np.abs(left).max())
            return asked[-1] <= 1e-6

        systems = GramSystems(GramProblem(q, np.ones(900), np.zeros(900)).square, 900)
        found, image = systems.solve(rows, 1e-8, right, enough)
        block = q[np.ix_(rows, rows)]
        residual = right - block @ found - 1e-8 * found
        assert np.abs(residual).max() <= (1e-6 + 1e-12 if not near_singular else 1e-5)
        np.testing.assert_allclose(image, block @ found, atol=1e-9 * (1 + np.abs(found).max()))
        assert systems.direct == near_singular
        assert len(asked) == LOOK + 1 if near_singular else asked[-1] <= 1e-6

    def test_what_is_no_positive_matrix_is_left_to_the_factorization(self):
        q, right = np.eye(500), np.zeros(500)
        q[0, 1] = q[1, 0] = 2.0
        right[:2] = 1.0, -1.0
        systems = GramSystems(GramProblem(q, np.ones(500), np.zeros(500)).square, 500)
        found, _ = systems.solve(np.arange(500), 0.0, right, lambda left: bool(np.abs(left).max() < 1e-9))
        assert systems.direct
        assert np.isnan(found).all()


class TestLibsvm:
    """LIBSVM as it is, and SVC used directly."""

    def test_it_is_svc_without_a_bias(self):
        """SVC on a kernel with a large constant added has next to no use for its bias."""
        q, c = rbf(1 / 30), 10.0
        problem = GramProblem(q, np.full(200, c), np.zeros(200))
        y = np.where(load_breast_cancer().target[:200] == 1, 1.0, -1.0)
        kernel = q * y[:, None] * y[None, :]
        doubled = np.block([[kernel, -kernel], [-kernel, kernel]])
        direct = SVC(kernel="precomputed", C=c / 2, tol=1e-6).fit(doubled, np.append(y, -y))
        alpha = np.zeros(400)
        alpha[direct.support_] = np.abs(direct.dual_coef_[0])
        found = solve_libsvm(problem, tolerance=1e-6)
        check(problem, found, 0.0)
        np.testing.assert_allclose(q @ found.alpha, q @ (alpha[:200] + alpha[200:]), atol=1e-4)
        assert found.gap < 1e-4 * dual(problem, found.alpha)

    @pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
    def test_the_fold_is_honoured(self, size):
        rng = np.random.default_rng(5)
        z, v = rng.standard_normal((100, 7)) + 0.3, size * rng.standard_normal(7)
        problem = GramProblem(z @ z.T, rng.random(100), z @ v)
        truth = gram_solver_named("newton").run(problem, None, 1e-9)
        assert truth.converged
        found = solve_libsvm(problem, tolerance=1e-6)
        check(problem, found, 0.0)
        np.testing.assert_allclose(z.T @ found.alpha, z.T @ truth.alpha, atol=1e-3)

    def test_what_it_leaves_is_finished(self):
        problem = GramProblem(rbf(1 / 300), np.full(200, 1e4), np.zeros(200))
        assert solve_libsvm(problem, 1e-3).outcome == "limit"
        found = gram_solver_named("libsvm").run(problem, None, 1e-3)
        check(problem, found, 1e-3)
        assert found.converged
        assert found.solver != "libsvm"

    def test_without_shrinking_it_goes_another_way_to_the_same_optimum(self):
        problem = GramProblem(rbf(1 / 300), np.full(200, 1e3), np.zeros(200))
        one, two = (solve_libsvm(problem, tolerance=1e-4, shrink=shrink) for shrink in (True, False))
        assert one.iterations != two.iterations
        assert dual(problem, one.alpha) == pytest.approx(dual(problem, two.alpha), rel=1e-6)

    def test_its_limit_of_steps_is_no_warning(self, monkeypatch):
        monkeypatch.setattr("pipeline.solve.gram.libsvm.MOST_STEPS", 10)
        problem = GramProblem(rbf(1 / 30), np.full(200, 1e4), np.zeros(200))
        found = solve_libsvm(problem, 1e-3)
        assert found.outcome == "limit"
        check(problem, found, 1e-3)
