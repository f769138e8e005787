"""The solvers against each other and against LIBLINEAR: cold and warm, C from 10 to 10^7 C_min, gaps of 1e-3 to 1e-6.

Every problem is first solved as well as ``auto`` can, which gives the dual value that all are judged by: the relative
gap of a solution is (P(w) - D_best)/P(w). dcd and newton alone are stopped once they have taken five times as long as
auto, or as long on the larger data sets (shown as -). LIBLINEAR runs on the plain rows with the loosest -e that reaches
the gap; "-" where none does. SMALL and LARGE are what auto's rule was developed on; on UNSEEN it was run when done.
"warm" starts at 1.05 times the solution at C/1.05. The larger data sets are run to 1e-4 only (or to --gaps); there the
dual value is that of a solution to a tenth of the gap.

python -m tests.bench.solvers [--data bcd a9a ...] [--gaps 1e-3 ...] [--seconds 300]
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from liblinear.liblinearutil import parameter, problem, train

from pipeline.maths.path_start import c_min
from pipeline.solve.auto import solve_auto
from pipeline.solve.dcd import solve_dcd
from pipeline.solve.newton import solve_newton
from pipeline.solve.reduced import ReducedProblem, Solution
from tests.bench.measure import verdict
from tests.bench.references import load_rows
from tests.in_memory.screening import MemoryRows

SMALL = [
    "bcd",
    "dna_scale",
    "digit1",
    "satimage_trn",
    "splice_scale",
    "mushrooms",
    "shuttle_trn",
    "magic",
    "pcmac_asu",
    "a9a",
]
UNSEEN = ["dna_scale_t", "digits", "gauss", "wide", "url-like", "kdda-like"]
LARGE = ["nycflights13", "census_income_kdd", "kddcup99_10pct", "imdb50k_uni", "news20_raw_bi"]
FACTORS = (1e1, 1e3, 1e5, 1e7)
GAPS = (1e-3, 1e-4, 1e-6)
TOLERANCES = (1.0, 0.1, 0.01, 1e-3, 1e-5)


@dataclass
class Line:
    """One problem at one gap: seconds by solver, inf where the gap was not reached."""

    name: str
    factor: float
    gap: float
    auto: float
    warm: float
    dcd: float
    newton: float
    liblinear: float


class Bench:
    """One data set: its rows, and what LIBLINEAR makes of each C, which does not depend on the gap asked for."""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds = name, seconds
        self.rows: MemoryRows = load_rows(name)
        z = self.rows.z
        self.c_min = c_min(np.asarray(z @ np.asarray(z.T @ self.rows.costs)))
        flipped = np.where(np.arange(z.shape[0]) % 2 == 0, 1.0, -1.0)
        plain = sp.csr_matrix(sp.diags_array(flipped) @ sp.csr_array(z))
        self.library_problem = problem(flipped, plain)

    def at(self, c: float) -> ReducedProblem:
        return ReducedProblem(self.rows.z, c * self.rows.costs, np.zeros(self.rows.z.shape[1]))

    def primal(self, reduced: ReducedProblem, w: np.ndarray) -> float:
        return float(w @ w) / 2 + float(reduced.u @ np.maximum(0.0, 1.0 - self.rows.z @ w))

    def lines(self, factor: float, gaps: tuple[float, ...], large: bool) -> list[Line]:
        c = factor * self.c_min
        reduced, before = self.at(c), self.at(c / 1.05)
        best = self.best(reduced, None, 0.1 * min(gaps))
        near = self.best(before, best.alpha / 1.05, (0.1 if large else 0.01) * min(gaps))
        start = np.minimum(1.05 * near.alpha, reduced.u)
        primal = self.primal(reduced, best.w)
        dual = primal - best.gap
        library = self.library(reduced, c, dual, 5.0 if large else 30.0)
        found = []
        for gap in gaps:
            target = gap * primal
            times = self.seconds_of(reduced, start, target, 1.0 if large else 5.0)
            liblinear = min((s for s, reached in library if reached <= gap), default=math.inf)
            found.append(Line(self.name, factor, gap, liblinear=liblinear, **times))
        return found

    def best(self, reduced: ReducedProblem, start: np.ndarray | None, gap: float) -> Solution:
        """Solve until the relative gap is reached: each primal value tells better what the gap is relative to."""
        rough = solve_auto(reduced, start, 1e-3 * float(reduced.u.sum()), self.seconds)
        for _ in range(6):
            primal = self.primal(reduced, rough.w)
            if rough.gap <= 2 * gap * primal:
                break
            rough = solve_auto(reduced, rough.alpha, gap * primal, self.seconds)
        return rough

    def seconds_of(self, reduced: ReducedProblem, start, target: float, patience: float) -> dict[str, float]:
        """Return the best of up to seven runs of each, in turn; inf where the target was not reached.

        ``patience`` says how many times as long as auto the others are given.
        """
        runs = {"auto": solve_auto, "warm": solve_auto, "dcd": solve_dcd, "newton": solve_newton}
        times = dict.fromkeys(runs, math.inf)
        for turn in range(7):
            for name, solver in runs.items():
                if turn and not times[name] < 1.0:
                    continue
                alone = name in ("dcd", "newton") and math.isfinite(times["auto"])
                most = min(self.seconds, max(patience * times["auto"], 0.5)) if alone else self.seconds
                begin = time.perf_counter()
                reached = solver(reduced, start if name == "warm" else None, target, most).gap <= target
                if reached:
                    times[name] = min(times[name], time.perf_counter() - begin)
        return times

    def library(self, reduced: ReducedProblem, c: float, dual: float, patience: float) -> list[tuple[float, float]]:
        """Return (seconds, relative gap reached) of LIBLINEAR for ever tighter tolerances."""
        found = []
        for tolerance in TOLERANCES:
            took = math.inf
            for _ in range(3):
                begin = time.perf_counter()
                model = train(self.library_problem, parameter(f"-s 3 -q -c {c!r} -e {tolerance}"))
                took = min(took, time.perf_counter() - begin)
                if took > 1.0:
                    break
            w = np.array(model.w[: self.rows.z.shape[1]])
            primal = self.primal(reduced, w)
            found.append((took, max(0.0, primal - dual) / primal))
            if took > patience:
                break
        return found


def compare_sweeps(bench: Bench) -> float:
    """Return LIBLINEAR's seconds over dcd's for 300 sweeps, both shrinking, at a C where neither is done by then."""
    c = 1e5 * bench.c_min
    reduced = bench.at(c)
    ratios = []
    for _ in range(3):
        begin = time.perf_counter()
        train(bench.library_problem, parameter(f"-s 3 -q -c {c!r} -e 1e-12"))
        middle = time.perf_counter()
        solve_dcd(reduced, None, 0.0, most_sweeps=300)
        ratios.append((middle - begin) / (time.perf_counter() - middle))
    return float(np.median(ratios))


def shown(seconds: float) -> str:
    return f"{seconds:9.3f}" if math.isfinite(seconds) else f"{'-':>9}"


def summary(lines: list[Line]) -> None:
    slack = 0.005  # seconds: below that, timers and Python decide
    reached = [line for line in lines if math.isfinite(line.auto)]
    print(f"auto reached its gap on {len(reached)} of {len(lines)}")
    for line in lines:
        if line not in reached:
            print(f"  not reached: {line.name} at {line.factor:g} C_min, gap {line.gap:g}")
    alone = [line for line in reached if math.isfinite(min(line.dcd, line.newton))]
    if alone:
        worst = max(alone, key=lambda line: (line.auto - slack) / min(line.dcd, line.newton))
        ratio = (worst.auto - slack) / min(worst.dcd, worst.newton)
        where = f"{worst.name} at {worst.factor:g} C_min, gap {worst.gap:g}"
        print(
            verdict(
                f"auto cold, less 5 ms, over the faster of dcd and newton, worst ({where})", ratio, 1.3, at_least=False
            )
        )
    rivals = [line for line in reached if math.isfinite(line.liblinear)]
    if rivals:
        worst = max(rivals, key=lambda line: (line.auto - slack) / line.liblinear)
        where = f"{worst.name} at {worst.factor:g} C_min, gap {worst.gap:g}"
        ratio = (worst.auto - slack) / worst.liblinear
        print(
            verdict(
                f"auto cold, less 5 ms, over LIBLINEAR where that arrives, worst ({where})", ratio, 1.0, at_least=False
            )
        )
    print(f"LIBLINEAR reached the gap on {len(rivals)} of {len(lines)}")
    at_four = [line for line in rivals if line.gap == 1e-4]
    if at_four:
        mean = math.exp(np.mean([math.log(line.liblinear / line.warm) for line in at_four]))
        print(verdict("LIBLINEAR cold over auto warm at 1e-4, geometric mean", mean, 3.0))


def breast_cancer() -> None:
    rows = load_rows("bcd")
    reduced = ReducedProblem(rows.z, 1e4 * rows.costs, np.zeros(30))
    found = solve_auto(reduced, None, 1e-4)
    primal = float(found.w @ found.w) / 2 + float(reduced.u @ np.maximum(0.0, 1.0 - rows.z @ found.w))
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        found = solve_auto(reduced, None, 1e-6 * primal)
        times.append(time.perf_counter() - begin)
    print(verdict("breast cancer at C = 10^4 to 1e-6, cold, milliseconds", 1e3 * float(np.median(times)), 50, False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=SMALL + UNSEEN + LARGE)
    parser.add_argument("--gaps", nargs="+", type=float)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    lines: list[Line] = []
    paces: dict[str, float] = {}
    print(f"{'':34}{'auto':>9}{'warm':>9}{'dcd':>9}{'newton':>9}{'liblinear':>10}  seconds", flush=True)
    for name in options.data:
        bench = Bench(name, options.seconds)
        for factor in FACTORS:
            gaps = tuple(options.gaps or (GAPS if name not in LARGE else (1e-4,)))
            for line in bench.lines(factor, gaps, large=name in LARGE):
                lines.append(line)
                times = (line.auto, line.warm, line.dcd, line.newton, line.liblinear)
                print(f"{name:<18}{factor:8.0e}{line.gap:8.0e}" + "".join(map(shown, times)), flush=True)
        if name not in LARGE:
            paces[name] = compare_sweeps(bench)
    summary(lines)
    if paces:
        print("300 sweeps of LIBLINEAR over 300 of dcd:", ", ".join(f"{n} {pace:.2f}" for n, pace in paces.items()))
    breast_cancer()


if __name__ == "__main__":
    main()
