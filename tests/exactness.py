"""Every verdict and every certificate against exact rational optima: ``python -m tests.exactness --problems 100000``.

Small problems of whole numbers, times a power of two from 1e-160 to 1e160, at C from 1e-200 to 1e200. References of any
kind: optimal but for rounding, nearly optimal, rough, w apart from w_alpha or of any size, nothing at all; at C itself,
a little below it, or hundreds of magnitudes below. Scaling by 2^k is exact in float64 and in the optimum
(w by 2^-k, C and alpha by 4^-k, margins not at all), so that one exact solution of whole numbers judges them all. Every
hundredth problem goes through ``fit_path``, as users go, and every tenth has its certificates made from a few of its
rows only, chosen at random: the others are known by products with other vectors. Prints what was tried and what was
wrong, with its seed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

import pipeline
from pipeline.data.dataset import Dataset
from pipeline.data.in_memory import in_memory
from pipeline.data.reading.labels import LabelMap
from pipeline.engine.engine import Engine
from pipeline.errors import SieveError
from pipeline.maths.ball import drift_of_sum
from pipeline.maths.rounding import nearest
from pipeline.maths.verdicts import KEEP, UPPER, ZERO, verdicts
from pipeline.path import certify
from pipeline.path.asleep import Doubt
from pipeline.path.certify import Certifier
from pipeline.working.host import LocalHost
from pipeline.working.rows import WorkingRows
from pipeline.working.solver import LinearPair
from pipeline.working.state import RowState
from tests.exact_oracle import descend, dot, optimum
from tests.in_memory.problem import combination
from tests.in_memory.screening import UPWARDS, MemoryRows, refer, screen

LEAST_C, MOST_C = 1e-200, 1e200
SCALES = (-531, 531)  # 2^-531 is 1.4e-160, 2^531 is 7e159
LARGEST_READ = 1e150  # what svmsieve takes as a row's norm
REFERENCES = ("exact", "near", "rough", "apart", "wild", "nothing")
DOOR, ASLEEP = 100, 10  # every so many problems


@dataclass(frozen=True)
class Problem:
    """Rows ``z`` times 2^k with costs, and C = c_whole 4^-k, which float64 has exactly."""

    z: np.ndarray
    costs: np.ndarray
    k: int
    c: float

    @property
    def rows(self) -> np.ndarray:
        return np.ldexp(self.z.astype(float), self.k)

    @property
    def whole_c(self) -> Fraction:
        return Fraction(self.c) * Fraction(4) ** self.k

    def boxes(self) -> list[Fraction]:
        return [self.whole_c * Fraction(float(cost)) for cost in self.costs]


def make(rng: np.random.Generator) -> Problem:
    n, d = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    most = int(rng.choice([4, 4, 1000]))  # the latter: rows nearly parallel, margins that cancel
    z = rng.integers(-most, most + 1, (n, d))
    costs = np.ones(n) if rng.random() < 0.5 else rng.choice([0.25, 0.3, 1.0, 3.0, 1e3], n)
    k = int(rng.choice([0, int(rng.integers(*SCALES))]))
    if rng.random() < 0.2:  # any C, however far from where anything happens
        return Problem(z, costs, k, float(10.0 ** rng.uniform(-200, 200)))
    whole = float(2.0 ** rng.uniform(-8, 8)) if rng.random() < 0.5 else float(rng.integers(1, 64)) / 32
    whole *= 1.0 if most == 4 else float(2.0 ** -rng.integers(0, 17))
    c = Fraction(whole) / Fraction(4) ** k
    return Problem(z, costs, k, float(c)) if LEAST_C <= c <= MOST_C else Problem(z, costs, 0, whole)


def reference(
    problem: Problem, best: list[Fraction], c_ref: float, kind: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return w and a feasible alpha at C_ref; ``best`` is the exact alpha of the whole numbers at C."""
    rows, u = problem.rows, c_ref * problem.costs
    n = u.size
    if kind == "nothing":
        alpha = np.zeros(n)
    elif kind == "exact":
        alpha = np.clip([nearest(a / Fraction(4) ** problem.k * Fraction(c_ref / problem.c)) for a in best], 0.0, u)
    elif kind in ("rough", "wild"):
        alpha = u * rng.random(n) * (rng.random(n) < 0.7)
    else:
        whole = np.clip(np.array([float(min(max(x, Fraction(1, 10**9)), 10**9)) for x in problem.boxes()]), 1e-9, 1e9)
        box = np.maximum(whole * (c_ref / problem.c), 1e-300)
        alpha = np.clip(u * (descend(problem.z.astype(float), box) / box), 0.0, u)
    w_alpha = combination(rows, alpha)
    if kind == "apart":
        return w_alpha * rng.uniform(0.5, 1.5, w_alpha.size) + rng.standard_normal(
            w_alpha.size
        ) * 2.0**-problem.k * 0.1, alpha
    if kind == "wild":
        return rng.standard_normal(w_alpha.size) * 10.0 ** rng.uniform(-200, 150), alpha
    return w_alpha, alpha


def exact_gap(problem: Problem, c: float, w: np.ndarray, alpha: np.ndarray) -> tuple[Fraction, Fraction]:
    """Return P and D in rational arithmetic."""
    z = [[Fraction(float(v)) for v in row] for row in problem.rows]
    w_exact, a = [Fraction(float(v)) for v in w], [Fraction(float(v)) for v in alpha]
    hinge = sum(
        Fraction(float(k)) * max(Fraction(0), 1 - dot(row, w_exact)) for k, row in zip(problem.costs, z, strict=True)
    )
    w_alpha = [dot(a, column) for column in zip(*z, strict=True)]
    return dot(w_exact, w_exact) / 2 + Fraction(c) * hinge, sum(a) - dot(w_alpha, w_alpha) / 2


class Judge:
    """Counts what was tried, and keeps what was wrong."""

    def __init__(self) -> None:
        self.tried, self.wrong = Counter[str](), list[str]()

    def verdicts(self, found: np.ndarray, margins: list[Fraction], what: str) -> None:
        for verdict, f in zip(found, margins, strict=True):
            self.tried["verdicts"] += 1
            self.tried["decided"] += int(verdict != KEEP)
            if (verdict == ZERO and not f > 1) or (verdict == UPPER and not f < 1):
                self.wrong.append(f"{what}: verdict {verdict} at margin {nearest(f)!r}")

    def certificate(self, said: tuple[float, float, float], exact: tuple[Fraction, Fraction], what: str) -> None:
        self.tried["certificates"] += 1
        primal, dual, gap = said
        p, d = exact
        bad = not (primal >= p and dual <= d and gap >= 0.0)
        if bad or (d >= 0 and p > 0 and gap < 1 - d / p):
            self.wrong.append(f"{what}: said {said}, exact {nearest(p)!r}, {nearest(d)!r}")


def one(seed: int, number: int, judge: Judge) -> None:
    rng = np.random.default_rng([seed, number])
    problem = make(rng)
    w, best = optimum(problem.z.tolist(), problem.boxes())
    margins = [Fraction(dot(w, row)) for row in problem.z.tolist()]
    norms = np.ldexp(np.linalg.norm(problem.z.astype(float), axis=1), problem.k)
    rows = MemoryRows(problem.rows, problem.costs, norms, np.full(len(margins), problem.z.shape[1]))
    ratio = float(rng.choice([1.0, 1.0, 0.99, 0.9, 0.5, 1e-3, 0.0]))
    c_ref = max(problem.c * ratio, LEAST_C)
    kind = str(rng.choice(REFERENCES))
    what = f"--seed {seed} --only {number} ({kind}, k = {problem.k}, C = {problem.c!r}, C_ref = {c_ref!r})"
    start, alpha = reference(problem, best, c_ref, kind, rng)
    try:
        pair = refer(rows, c_ref, start, alpha, None if kind in ("apart", "wild") else start)
        found = pair.reference.certificate
        judge.certificate((found.primal, found.dual, found.relative_gap), exact_gap(problem, c_ref, start, alpha), what)
        for rule in (*UPWARDS, *(["gap"] if c_ref == problem.c else [])):
            judge.verdicts(screen(rows, pair, problem.c, rule).verdicts, margins, f"{what} {rule}")
    except SieveError:
        judge.tried["refused"] += 1


def through_the_door(seed: int, number: int, judge: Judge, folder: Path) -> None:
    """Train at C/2 and C by ``fit_path`` and judge what it stores."""
    rng = np.random.default_rng([seed, number])
    problem = make(rng)
    if np.ldexp(2000.0, problem.k) > LARGEST_READ or len(problem.z) < 2:
        return
    y = np.where(np.arange(len(problem.z)) % 2, 1, -1)
    path = folder / f"{number}.npz"
    x = problem.rows * y[:, None]
    rows, columns = np.nonzero(x)
    indptr = np.searchsorted(rows, np.arange(len(y) + 1))
    np.savez(path, data=x[rows, columns], indices=columns, indptr=indptr, shape=x.shape, y=y, weight=problem.costs)
    what = f"--seed {seed} --only {number} (fit_path, k = {problem.k}, C = {problem.c!r})"
    try:
        run = pipeline.fit_path(path, grid=[problem.c / 2, problem.c], tol=1e-3, scheduler="inline")
    except SieveError:
        judge.tried["runs refused"] += 1
        return
    judge.tried["runs"] += 1
    for step in run.steps:
        at = Problem(problem.z, problem.costs, problem.k, step.c)
        w, _ = optimum(at.z.tolist(), at.boxes())
        judge.verdicts(step.verdicts, [Fraction(dot(w, row)) for row in at.z.tolist()], what)
        judge.certificate((step.primal, step.dual, step.relative_gap), exact_gap(at, step.c, step.w, step.alpha), what)


def asleep(seed: int, number: int, judge: Judge) -> None:
    """Certify three pairs one after the other, the last two from what is known of rows that are not read."""
    rng = np.random.default_rng([seed, number])
    problem = make(rng)
    if np.ldexp(2000.0, problem.k) > LARGEST_READ or np.ldexp(1.0, problem.k) < 1 / LARGEST_READ:
        return
    w, best = optimum(problem.z.tolist(), problem.boxes())
    margins = [Fraction(dot(w, row)) for row in problem.z.tolist()]
    labels = LabelMap(("-1",), ("1",))
    data = in_memory(problem.rows, np.ones(len(margins), np.int64), labels, problem.costs)
    with Engine("inline") as engine:
        try:
            state = facts_of(data)
            working = WorkingRows(LocalHost(engine, data, state.wide), state, 2**40)
            certifier = Certifier(engine, data, working, "it", tol=0.5)
            point = None
            for ratio in sorted(rng.choice([1.0, 0.999, 0.9, 0.5], 3)):
                c, kind = max(problem.c * ratio, LEAST_C), str(rng.choice(REFERENCES))
                what = f"--seed {seed} --only {number} (asleep, {kind}, k = {problem.k}, C = {c!r} of {problem.c!r})"
                start, alpha = reference(problem, best, c, kind, rng)
                w_alpha = combination(problem.rows, alpha)
                drift = drift_of_sum(float(alpha @ state.norms), len(margins) + 2)
                at_once = kind not in ("apart", "wild")
                pair = LinearPair(alpha, w_alpha if at_once else start, w_alpha, drift)
                with sleeping(rng.random(len(margins)) < rng.random()):
                    point = certifier.point(c, pair, point)
                found = point.certificate
                judge.tried["not read"] += 0 if point.look.read is None else int(np.count_nonzero(~point.look.read))
                said = found.primal, found.dual, found.relative_gap
                judge.certificate(said, exact_gap(problem, c, pair.w, alpha), what)
                for rule in UPWARDS:
                    bounds = point.proof(problem.c, rule).bounds(slice(0, len(margins)))
                    judge.verdicts(verdicts(*bounds), margins, f"{what} {rule}")
        except SieveError:
            judge.tried["refused"] += 1


@contextmanager
def sleeping(asleep: np.ndarray) -> Iterator[None]:
    """Have certificates read all rows but these, however little is known of them and however much that is."""
    usual = certify.MOST_READ, certify.MOST_SINCE, certify.MOST_DRIFT, Doubt.wake
    certify.MOST_READ, certify.MOST_SINCE, certify.MOST_DRIFT = math.inf, math.inf, math.inf

    def wake(self: Doubt, f: np.ndarray, alpha: np.ndarray, box: tuple[float, np.ndarray], part: slice) -> int:
        self.awake[part] = ~asleep[part]
        return int(self.state.lengths[part].sum(where=self.awake[part]))

    Doubt.wake = wake  # type: ignore[method-assign]
    try:
        yield
    finally:
        certify.MOST_READ, certify.MOST_SINCE, certify.MOST_DRIFT, Doubt.wake = usual  # type: ignore[method-assign]


def facts_of(data: Dataset) -> RowState:
    """Return what is known of every row; rows of one class are fine here."""
    state = RowState(data.n_rows, None)
    rows = data.shards[0].load()
    state.norms[:], state.costs[:], state.labels[:] = rows.norms, rows.costs, rows.labels
    state.lengths[:], state.wide = np.diff(rows.indptr), rows.values.dtype == np.float64
    return state


def main() -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.exactness")
    parser.add_argument("--problems", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one problem, by its number")
    options = parser.parse_args()
    judge = Judge()
    numbers = range(options.problems) if options.only is None else [options.only]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SVMSIEVE_CACHE"] = str(Path(folder) / "cache")
        for number in numbers:
            one(options.seed, number, judge)
            if number % ASLEEP == 0 or options.only is not None:
                asleep(options.seed, number, judge)
            if number % DOOR == 0 or options.only is not None:
                through_the_door(options.seed, number, judge, Path(folder))
    for line in judge.wrong[:20]:
        print(line)
    tried = ", ".join(f"{count:,} {what}" for what, count in judge.tried.items())
    print(f"{len(numbers):,} problems: {tried}; {len(judge.wrong)} wrong")
    return 1 if judge.wrong else 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    assert math.ldexp(1.0, SCALES[1]) > 1e159
    sys.exit(main())
