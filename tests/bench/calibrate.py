"""The machine's constants, measured, beside those in the code.

Times are CPU seconds of this thread, the best of a few turns: what other programs do meanwhile hardly matters. What
decides is ratios: the choice between dcd and newton (``solve.auto``) compares predicted times of the two. A factor of
two all over changes nothing; a factor of two between rows of this table moves the C at which newton takes over.
The constants in the code are those of one machine of 2026 and stay: a path has the same bits on every machine.

python -m tests.bench.calibrate [--turns 5]
"""

from __future__ import annotations

import argparse
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from unittest import mock

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import pipeline
from pipeline import budget
from pipeline.engine import engine
from pipeline.maths import csr
from pipeline.solve import dcd, newton_system, timing
from pipeline.solve.dcd import Descent
from pipeline.solve.newton import solve_newton
from pipeline.solve.newton_kernel import gram_of_features, gram_of_rows, line_search, proximal_alpha
from pipeline.solve.newton_system import Systems
from pipeline.solve.reduced import ReducedProblem
from pipeline.working.state import RowState
from tests.bench.measure import child

LENGTH, SEED, SETTLED = 40, 1, 30
SMALL_PATH = """
import pipeline
pipeline.fit_path("breast_cancer", epsilon=0.3, scheduler="inline")
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["RssAnon"].split()[0]) * 1024)
"""


@dataclass(frozen=True)
class Constant:
    """A constant, where it is, and what this machine has."""

    where: str
    name: str
    coded: float
    measured: float

    def __str__(self) -> str:
        ratio = self.measured / self.coded
        return f"{self.where:<22}{self.name:<24}{self.coded:>12.3g}{self.measured:>12.3g}{ratio:>9.2f}"


class Meter:
    """Times calls."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def seconds(self, run: Callable[[], object]) -> float:
        """Return the least CPU seconds of one call, after one that warms up; short ones are repeated."""
        run()
        begun = time.thread_time()
        run()
        calls = max(1, math.ceil(0.02 / max(time.thread_time() - begun, 1e-6)))
        best = math.inf
        for _ in range(self.turns):
            begun = time.thread_time()
            for _ in range(calls):
                run()
            best = min(best, (time.thread_time() - begun) / calls)
        return best


def sparse_problem(n: int, d: int, length: int = LENGTH) -> ReducedProblem:
    """Rows of ``length`` nonzeros anywhere."""
    rng = np.random.default_rng(SEED)
    indices = np.sort(rng.integers(0, d, (n, length), dtype=np.int32), axis=1).reshape(-1)
    indptr = np.arange(0, n * length + 1, length, dtype=np.int32)
    z = sp.csr_array((rng.standard_normal(n * length), indices, indptr), shape=(n, d))
    return ReducedProblem(z, _box(n), np.zeros(d))


def _box(n: int) -> np.ndarray:
    """Three rows of four are for ever at a bound, as most are in a solve; the fourth is free."""
    return np.where(np.arange(n) % 4 == 0, 1.0, 1e-9)


def dense_problem(n: int, d: int) -> ReducedProblem:
    return ReducedProblem(np.random.default_rng(SEED).standard_normal((n, d)), _box(n), np.zeros(d))


def a_sweep(meter: Meter, problem: ReducedProblem, steps: bool = False) -> float:
    """Return the seconds of a sweep over all rows, with a subspace step after it or without one.

    After ``SETTLED`` sweeps, when most rows stay at the bound they belong to: as in most sweeps of a solve.
    """
    run = Descent(problem, np.zeros(problem.u.size), shrink=False, seed=0)
    run.next_scaling = 10**9
    for _ in range(SETTLED):
        run.burst(0.0, 1)

    def once() -> None:
        run.pace[:] = 1 if steps else 10**9
        run.burst(0.0, 1)

    return meter.seconds(once)


def of_dcd(meter: Meter) -> Iterator[Constant]:
    """What visits and subspace steps take."""
    near, brief = sparse_problem(4_000, 20_000), sparse_problem(4_000, 20_000, LENGTH // 8)
    near_sweep, brief_sweep = a_sweep(meter, near), a_sweep(meter, brief)
    nonzero = (near_sweep - brief_sweep) / (near.nnz - brief.nnz)
    row = (near_sweep - nonzero * near.nnz) / near.u.size / nonzero
    work = near.nnz + dcd.NONZEROS_A_ROW * near.u.size
    yield Constant("solve.timing", "SECONDS_A_VISIT", timing.SECONDS_A_VISIT, near_sweep / work)
    yield Constant("solve.dcd", "NONZEROS_A_ROW", dcd.NONZEROS_A_ROW, row)
    wide = sparse_problem(100_000, 4_000_000)
    far = a_sweep(meter, wide) / (wide.nnz + dcd.NONZEROS_A_ROW * wide.u.size)
    yield Constant("solve.timing", "SECONDS_A_FAR_VISIT", timing.SECONDS_A_FAR_VISIT, far)
    dense = dense_problem(4_000, 400)
    value = (a_sweep(meter, dense) - row * nonzero * dense.u.size) / dense.nnz
    yield Constant("solve.dcd", "DENSE_VALUE", dcd.DENSE_VALUE, value / nonzero)
    few, many = sparse_problem(20_000, 20_000), sparse_problem(2_000, 400_000)
    step_of_rows = a_sweep(meter, few, steps=True) - a_sweep(meter, few)
    yield Constant("solve.dcd", "STEP_A_ROW", dcd.STEP_A_ROW, step_of_rows / few.u.size / nonzero)
    step_of_features = a_sweep(meter, many, steps=True) - a_sweep(meter, many)
    yield Constant("solve.dcd", "STEP_A_FEATURE", dcd.STEP_A_FEATURE, step_of_features / many.z.shape[1] / nonzero)


def both_products(meter: Meter, problem: ReducedProblem) -> float:
    """Return the seconds a stored value of a product with Z and one with its transpose."""
    systems, w, alpha = Systems(problem), np.ones(problem.z.shape[1]), np.ones(problem.u.size)
    return (meter.seconds(lambda: systems.margins(w)) + meter.seconds(lambda: systems.combine(alpha))) / problem.nnz


def of_newton(meter: Meter) -> Iterator[Constant]:
    """What a step takes, and the parts of its systems."""
    tiny = dense_problem(40, 4)
    steps = solve_newton(tiny, None, 0.0).iterations
    step = meter.seconds(lambda: solve_newton(tiny, None, 0.0)) / steps
    yield Constant("solve.timing", "SECONDS_A_STEP", timing.SECONDS_A_STEP, step)
    n = 200_000
    rng = np.random.default_rng(SEED)
    f, q, u, half = 1.0 + rng.standard_normal(n), rng.standard_normal(n), np.ones(n), np.full(n, 0.5)
    out, free = np.empty(n), np.empty(n + 1, np.int64)
    rows = meter.seconds(lambda: proximal_alpha(f, half, u, u, out, free))
    rows += meter.seconds(lambda: line_search(f, q, half, u, u, -float(n), 1.0))
    yield Constant("solve.timing", "SECONDS_A_ROW", timing.SECONDS_A_ROW, rows / n)
    sparse, dense = sparse_problem(20_000, 20_000), dense_problem(4_000, 400)
    yield Constant("solve.timing", "SECONDS_A_NONZERO", timing.SECONDS_A_NONZERO, both_products(meter, sparse))
    yield Constant("solve.timing", "SECONDS_A_CELL", timing.SECONDS_A_CELL, both_products(meter, dense))
    few = sparse_problem(4_000, 1_000)
    systems, d = Systems(few), few.z.shape[1]
    listed, ones, square = np.arange(few.u.size), np.ones(few.u.size), np.empty((d, d))
    pairs = meter.seconds(lambda: gram_of_features(systems.rows, listed, ones, square))
    yield Constant("solve.timing", "SECONDS_A_PAIR", timing.SECONDS_A_PAIR, pairs / (few.u.size * LENGTH**2))
    some, spread, square = np.arange(1_000), np.zeros(d), np.empty((1_000, 1_000))
    products = meter.seconds(lambda: gram_of_rows(systems.rows, some, ones, spread, square))
    yield Constant("solve.timing", "SECONDS_A_PRODUCT", timing.SECONDS_A_PRODUCT, products / (1e6 * (LENGTH + 3)))
    right = np.ones(1_000)
    flop = meter.seconds(lambda: newton_system._solve_positive(np.eye(1_000) * 2.0, right)) / 1e9
    yield Constant("solve.timing", "SECONDS_A_FLOP", timing.SECONDS_A_FLOP, flop)
    pair = pairs / (few.u.size * LENGTH**2)
    yield Constant("solve.newton_system", "FLOP", newton_system.FLOP, flop / pair)
    copy = meter.seconds(lambda: newton_system._scaled(dense.z[listed], ones))
    yield Constant("solve.timing", "SECONDS_A_COPY", timing.SECONDS_A_COPY, copy / dense.nnz)
    wide = sparse_problem(10, 1_000_000, 2)
    target = np.random.default_rng(SEED).standard_normal(1_000_000)
    usual, newton_system.CG_TOLERANCE = newton_system.CG_TOLERANCE, 0.0
    steps_of_cg, newton_system.CG_STEPS = newton_system.CG_STEPS, 10
    try:
        feature = meter.seconds(lambda: newton_system._conjugate_gradients(wide.z.scipy(), target)) / 10 / 1e6
    finally:
        newton_system.CG_TOLERANCE, newton_system.CG_STEPS = usual, steps_of_cg
    yield Constant("solve.timing", "SECONDS_A_CG_FEATURE", timing.SECONDS_A_CG_FEATURE, feature)


def of_the_engine(meter: Meter) -> Iterator[Constant]:
    """How many nonzeros are multiplied while a thread wakes up (by the clock: waiting takes no CPU)."""
    there, times = threading.Event(), []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(200):
            there.clear()
            begun = time.perf_counter()
            pool.submit(there.set)
            there.wait()
            times.append(time.perf_counter() - begun)
    problem = sparse_problem(20_000, 20_000)
    z, labels, w = problem.z, np.ones(problem.u.size), np.ones(problem.z.shape[1])
    nonzero = meter.seconds(lambda: csr.row_margins((z.indptr, z.indices, z.data, labels), w)) / problem.nnz
    yield Constant("engine.engine", "WORTH_SHARING", engine.WORTH_SHARING, float(np.median(times)) / nonzero)


def of_memory() -> Iterator[Constant]:
    """What a process has before there are rows, and what a row takes besides its values."""
    said = child(SMALL_PATH)
    yield Constant("budget", "BASE", budget.BASE, said[0])
    rows = row_bytes(every_row=True)
    yield Constant("budget", "ROW_BYTES", budget.ROW_BYTES, rows)
    yield Constant("budget", "KNOWN_ROW_BYTES", budget.KNOWN_ROW_BYTES, row_bytes(every_row=False) - rows)


def row_bytes(every_row: bool) -> float:
    """Return the most bytes a row that the arrays by row of a small path have had at a time; masks are not counted."""
    live, most, empty = 0, 0, RowState.empty

    def note(change: int) -> None:
        nonlocal live, most
        live += change
        most = max(live, most)

    def counted(state: RowState, dtype: type = np.float64) -> np.ndarray:
        made = empty(state, dtype)
        note(made.nbytes)
        weakref.finalize(made, note, -made.nbytes)
        return made

    data = pipeline.open_dataset("breast_cancer")
    with mock.patch.object(RowState, "empty", counted):
        pipeline.fit_path(data, epsilon=0.01, scheduler="inline", every_row=every_row)
    return most / data.n_rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    meter = Meter(parser.parse_args().turns)
    print(f"{'in':<22}{'constant':<24}{'code':>12}{'here':>12}{'ratio':>9}", flush=True)
    with threadpool_limits(limits=1):  # as runs have it
        for part in (of_dcd(meter), of_newton(meter), of_the_engine(meter), of_memory()):
            for constant in part:
                print(constant, flush=True)


if __name__ == "__main__":
    sys.exit(main())
