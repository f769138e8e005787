"""Figure 6: IT against the dome test of the paper's first version, from C_a = 10^4 C_min, at C with C_a/C to 0.95.

The dome holds w*_C for every C in [C_a, C_b], here C_b = 1.3 C, and needs the optima at both ends. "Times as fast" is
training over all rows against screening and training over what is left (newton, to a relative gap of 1e-6, cold: the
paper's CVX knows no start either).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pipeline.maths.path_start import c_min
from pipeline.maths.verdicts import KEEP, UPPER, verdicts
from pipeline.report.parts import Figure, PageTable, number, share
from pipeline.solve.newton import solve_newton
from pipeline.solve.reduced import ReducedProblem
from tests.bench.measure import Seconds
from tests.bench.paper import draw
from tests.bench.paper.exact import Exact, Optimum
from tests.bench.paper.exhibit import PRINTED, Claim, Effort, Exhibit, exhibit
from tests.bench.paper.kept import Kept
from tests.bench.paper.sets import PaperSet, Sets
from tests.in_memory import problem
from tests.in_memory.dome import dome_bounds
from tests.in_memory.problem import doubt_of
from tests.in_memory.screening import MemoryRows, screen

GAP = 1e-6
TIMES, LEAST = 3, 1e-4  # of measuring; seconds that the clock can tell from none
ALIKE = 0.05  # rates that differ by less on average are comparable
TESTS = ("IT", "DT")


def least_c(rows: MemoryRows) -> float:
    """Return C_min."""
    f = problem.margins(rows.z, problem.combination(rows.z, rows.costs))
    return c_min(f, doubt_of(rows.costs, rows.norms))


def dome(rows: MemoryRows, at: Optimum, b: float) -> np.ndarray:
    """Return the verdicts of the dome from the optimum at C_a, B = |w*|^2 at C_b."""
    w = at.pair.vectors[0]
    a = float(w @ w)
    return verdicts(*dome_bounds(at.pair.products[0], rows.norms, a, max(a, b)))


def seconds(rows: MemoryRows, c: float, target: float, found: Callable[[], np.ndarray] | None) -> float:
    """Return the CPU seconds that screening and training take, the least of some."""
    return max(LEAST, min(_once(rows, c, target, found).cpu for _ in range(TIMES)))


def _once(rows: MemoryRows, c: float, target: float, found: Callable[[], np.ndarray] | None) -> Seconds:
    took, u, zero = Seconds(), c * rows.costs, np.zeros(rows.z.shape[1])
    with took.counted():
        whole = ReducedProblem(rows.z, u, zero)
        if found is not None:
            verdict = found()
            kept, upper = (np.flatnonzero(verdict == side) for side in (KEEP, UPPER))
            whole = ReducedProblem(rows.z[kept], u[kept], problem.combination(rows.z[upper], u[upper]))
        if whole.u.size:
            solve_newton(whole, None, target)
    return took


def compare(rows: PaperSet, ratios: tuple[float, ...]) -> list[tuple[float, dict[str, float], dict[str, float]]]:
    """Return ratio, rates and speed-ups of either test."""
    exact = Exact(rows)
    c_a = PRINTED["figure6"]["c_ref_in_c_min"] * least_c(exact.rows)
    at, lines = exact.optimum(c_a), []
    for ratio in ratios:
        c = c_a / ratio
        there, w_b = exact.optimum(c), exact.optimum(PRINTED["figure6"]["c_b"] * c).pair.vectors[0]
        tests = {
            "IT": lambda c=c: screen(exact.rows, at.pair, c, "it").verdicts,
            "DT": lambda b=float(w_b @ w_b): dome(exact.rows, at, b),
        }
        target = GAP * float(there.pair.reference.certificate.primal)
        full = seconds(exact.rows, c, target, None)
        rates = {name: there.rate(found()) for name, found in tests.items()}
        faster = {name: full / seconds(exact.rows, c, target, run) for name, run in tests.items()}
        lines.append((ratio, rates, faster))
    return lines


def figure6(sets: Sets, effort: Effort, kept: Kept) -> Exhibit:
    """Draw a panel a set."""
    printed = PRINTED["figure6"]
    lead = (
        "Screening rates (bars), and how many times as fast screening and training are as training over all rows "
        "(lines, CPU seconds), linear, from the optimum at C_ref = 10^4 C_min."
    )
    header = ("set", "C_ref/C", *(f"{test} {what}" for what in ("rate", "times as fast") for test in TESTS))
    made = exhibit("figure6", "IT against the dome test", lead, header)
    low, high = printed["ratios"]
    ratios = (low, 0.7, 0.8, 0.9, high) if effort.turns > 1 else (low, 0.8, high)
    for rows in sets.those_here(list(printed["sets"]), made.section.missing):
        lines = kept.of(f"figure6 {rows.key}", partial(compare, rows, ratios))
        by_test = {test: [line[1][test] for line in lines] for test in TESTS}
        faster = {test: [line[2][test] for line in lines] for test in TESTS}
        made.rows += [(rows.key, line[0], *line[1].values(), *line[2].values()) for line in lines]
        cells = [
            (f"{ratio:g}", *map(share, rate.values()), *(number(x, 3) for x in fast.values()))
            for ratio, rate, fast in lines
        ]
        table = PageTable("Rates and speed-ups", header[1:], cells)
        said = f"Rates of IT and of the dome test (DT) on {rows.n:,} rows, and speed-ups; {rows.said}"
        drawing = partial(draw.against_dome, ratios=ratios, found=by_test, faster=faster)
        made.section.figures.append(Figure(f"{rows.title}, IT and dome", said, drawing, table, width=4.6, height=3.3))
        ahead = float(np.mean(np.subtract(by_test["IT"], by_test["DT"])))
        said_so = printed["sets"][rows.key]
        agrees = abs(ahead) <= ALIKE if said_so == "comparable" else (ahead > 0) == (said_so == "clearly better")
        text = f"on {rows.name} IT is {said_so}"
        made.claims.append(Claim(text, agrees, f"IT's rate less the dome's: {100 * ahead:+.1f} points on average"))
    return made.finish()
