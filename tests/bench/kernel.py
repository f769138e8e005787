"""Certified RBF paths as in the paper (eps 1e-3, C to 10^4, relative gap 1e-4) beside scikit-learn's SVC (LIBSVM).

Ours is the whole call of ``fit_path`` in this process: shards opened, all set up, every model written. Only compiling
is done before, by small paths. SVC (cache of 2 GB) trains cold at every K-th C of that path, on rows in memory. Both
have one thread, and take turns: a path, then some of SVC's C, then the path again, then the others.

SVC has a bias, so its problem is not quite ours; what it reaches is the relative gap of its own problem, from its
alpha and its bias with kernel values in float64. It is asked at its default tol, and at the loosest of a list at which
that gap is 1e-4; a C where none is counts with what the tightest took, and is said not to arrive. Its seconds for all
C are the mean of those asked for times the number of C.

On up to 1,000 rows the problem without a bias is solved by LIBSVM as well (twice the rows, see
``pipeline.solve.gram.libsvm``), to see that our primal and dual values are on either side of its.

``--limit`` ends a path after so many seconds, and SVC's C of it, which are taken in such an order that those done by
then are spread over the path. With it, how far C came is what a path has to show; ``--alone`` leaves SVC out, which
takes hours on tens of thousands of rows. As far as an hour goes, then:

python -m tests.bench.kernel --sets a9a,magic,shuttle --gammas 1 --limit 3600 --alone

python -m tests.bench.kernel [--data DIR] [--sets bcd,dna] [--gammas 0.1,1,10] [--every 10] [--limit SECONDS] [--alone]
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.runs.run import Run, StepView
from pipeline.solve.gram.libsvm import solve_libsvm
from pipeline.solve.gram.problem import GramProblem
from tests.bench.kernel_sets import SETS, SETTINGS, KernelSet, add_arguments, open_set, warm_up
from tests.bench.measure import Seconds, stopped_path, verdict
from tests.bench.path import spread
from tests.bench.svc import TOL, Fit, Theirs

TARGETS = {"bcd": 4.0, "dna": 10.0, "digit1": 10.0, "satimage": 10.0}
SMALL = 1000  # rows, of which LIBSVM can have twice as many in a dense matrix at any C


@dataclass
class Ours:
    """A path, and what the calls for it took, one a turn."""

    run: Run
    took: list[Seconds]
    stopped: bool

    @property
    def wall(self) -> float:
        return float(np.mean([each.wall for each in self.took]))

    @property
    def cpu(self) -> float:
        return float(np.mean([each.cpu for each in self.took]))


def our_path(rows: KernelSet, gamma: float, limit: float, out: Path) -> Ours:
    """Go along the path, as far as the limit allows."""
    shutil.rmtree(out, ignore_errors=True)
    took = Seconds()
    with took.counted():
        run, stopped = stopped_path(
            rows.shards, out, limit, gamma=f"{gamma!r}/d", epsilon=1e-3, tol=TOL, workers=1, **SETTINGS
        )
    return Ours(run, [took], stopped)


@dataclass(frozen=True)
class Line:
    """One set at one gamma: SVC's seconds for all C over ours, by the wall clock and by CPU, at either tol."""

    rows: KernelSet
    gamma: float
    ours: Ours
    theirs: Theirs

    def ratios(self, fits: dict[float, Fit]) -> tuple[float, float]:
        if not fits or not self.ours.run.steps:
            return math.nan, math.nan
        count = len(self.ours.run.steps)
        wall, cpu = (np.mean([getattr(found.took, name) for found in fits.values()]) for name in ("wall", "cpu"))
        return count * float(wall) / self.ours.wall, count * float(cpu) / self.ours.cpu


def compare(rows: KernelSet, gamma: float, options: argparse.Namespace, out: Path) -> Line:
    """Have ours and SVC take turns; print what either did."""
    ours, theirs = our_path(rows, gamma, options.limit, out), Theirs()
    cs = [step.c for step in ours.run.steps[1:][:: options.every]]
    order = [cs[k] for k in spread(len(cs))] if cs and not options.alone else []
    number, begun = gamma / rows.x.shape[1], time.perf_counter()
    for turn in range(1 if options.alone else options.turns):
        if turn and not ours.stopped:
            ours.took += our_path(rows, gamma, math.inf, out).took
        for c in order[turn :: options.turns]:
            if time.perf_counter() - begun < options.limit:
                theirs.ask(rows, c, number)
    line = Line(rows, gamma, ours, theirs)
    show(line, number)
    if rows.n <= SMALL and theirs.tight:
        judge(rows, number, [step for step in ours.run.steps if step.c in theirs.tight])
    return line


def show(line: Line, number: float) -> None:
    ours, theirs, steps = line.ours, line.theirs, line.ours.run.steps
    print(f"\n{line.rows.name}, gamma {line.gamma:g}/d = {number:.4g}")
    if not steps:
        print(f"  ours  no step within {ours.wall:.0f} s", flush=True)
        return
    ended = "the limit came" if ours.stopped else "done"
    turns = " and ".join(f"{each.wall:.2f}" for each in ours.took)
    print(f"  ours  {len(steps)} steps to C = {steps[-1].c:.4g} ({ended}) in {turns} s, {ours.cpu:.2f} s of CPU")
    parts = {name: sum(step.seconds[name] for step in steps) for name in steps[-1].seconds}
    beside = ours.took[-1].wall - parts.pop("total")
    told = ", ".join(f"{name} {took:.2f}" for name, took in parts.items())
    print(f"        {told}; C_min, set-up and writing {beside:.2f} s")
    values = sum(step.kernel_values for step in steps) / line.rows.n**2
    print(
        f"        kernel values {values:.2f} n^2, {sum(step.rounds for step in steps)} rounds, at most "
        f"{max(step.working_set for step in steps):,} rows solved for, {max(step.n_free for step in steps):,} free"
    )
    print(f"  SVC   at {len(theirs.tight)} of {len(steps)} C{'' if theirs.tight else ': nothing to compare'}")
    for what, fits in (("tol 1e-3", theirs.default), (f"gap {TOL:.0e}", theirs.tight)):
        if fits:
            show_fits(line, what, fits)


def show_fits(line: Line, what: str, fits: dict[float, Fit]) -> None:
    each, (wall, cpu) = np.mean([found.took.wall for found in fits.values()]), line.ratios(fits)
    gaps = [found.gap for found in fits.values()]
    arrived = sum(gap <= TOL for gap in gaps)
    print(
        f"        {what}: {each:.3f} s a C, {each * len(line.ours.run.steps):.1f} s for all: {wall:.1f} times ours "
        f"({cpu:.1f} by CPU)\n"
        f"                  its gaps: median {np.median(gaps):.1e}, worst {max(gaps):.1e}; "
        f"{TOL:.0e} at {arrived} of {len(gaps)} C",
        flush=True,
    )


def judge(rows: KernelSet, gamma: float, steps: list[StepView]) -> None:
    """See that our values and those of the doubled problem do not contradict one another."""
    q, right, gaps = rows.gram(gamma), 0, []
    for step in steps:
        found = solve_libsvm(GramProblem(q, np.full(rows.n, step.c), np.zeros(rows.n)), tolerance=1e-6)
        f = q @ found.alpha
        dual = float(found.alpha.sum() - found.alpha @ f / 2)
        right += dual <= step.primal and step.dual <= dual + found.gap
        gaps.append(found.gap / (dual + found.gap))
    print(
        f"  exact without a bias: values of LIBSVM (tol 1e-6) and ours agree at {right} of {len(steps)} C\n"
        f"        LIBSVM's gaps there: median {np.median(gaps):.1e}, worst {max(gaps):.1e}",
        flush=True,
    )


def summary(lines: list[Line]) -> None:
    print("\nSVC's seconds for all C over ours" + " " * 19 + "SVC at tol 1e-3  at gap 1e-4  arrives")
    print(f"{'set':<10}{'gamma':>6}{'steps':>7}{'C to':>10}{'ours s':>9}{'n^2':>7}" + f"{'wall':>9}{'CPU':>7}" * 2)
    for line in lines:
        steps = line.ours.run.steps
        values = sum(step.kernel_values for step in steps) / line.rows.n**2
        shown = [
            f"{ratio[0]:9.1f}{ratio[1]:7.1f}" for ratio in map(line.ratios, (line.theirs.default, line.theirs.tight))
        ]
        to = steps[-1].c if steps else math.nan
        print(
            f"{line.rows.name:<10}{f'{line.gamma:g}/d':>6}{len(steps):>7}{to:>10.4g}{line.ours.wall:>9.2f}{values:>7.2f}"
            f"{''.join(shown)}{line.theirs.arrived:>5}/{len(line.theirs.tight)}"
        )
    for name, target in TARGETS.items():
        found = {line.gamma: line.ratios(line.theirs.tight)[0] for line in lines if line.rows.name == name}
        found = {gamma: ratio for gamma, ratio in found.items() if math.isfinite(ratio)}
        if found:
            worst = min(found, key=found.__getitem__)
            print(verdict(f"{name}: SVC to the same gap over ours, worst gamma ({worst:g}/d)", found[worst], target))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, list(SETS))
    parser.add_argument("--limit", type=float, default=math.inf, metavar="SECONDS", help="a path, and SVC's C of it")
    parser.add_argument("--turns", type=int, default=2, help="how often the path is gone along")
    parser.add_argument("--alone", action="store_true", help="our paths, once, and no SVC")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(prefix="kernel-") as scratch:
        folder = Path(scratch)
        warm_up(folder)
        for name in options.sets:
            rows = open_set(name, options.data, folder)
            print("\n" + rows.said())
            lines += [compare(rows, gamma, options, folder / "run") for gamma in options.gammas]
    summary(lines)


if __name__ == "__main__":
    main()
