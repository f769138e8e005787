"""The paper's six approaches with RBF kernels: Full, Shrink, BT1, Shrink+BT1, IT, Shrink+IT (table 4 there).

LIBSVM without its bias (twice the rows, see ``pipeline.solve.gram.libsvm``; tol 1e-3, cold), its shrinking off or on,
over all rows, or over those that a rule leaves open at the C of the certified model one step before on the same
eps-path (eps 1e-3, C to 10^4, gap 1e-4), the rows proven UPPER folded. Seconds are those of the rule and of LIBSVM's
training, summed over every K-th C of the path; at each C the six take turns. Q is computed once for all, as are the
models that rules start from; neither these nor bringing LIBSVM the part of Q that it is to know are counted.

The numbers are ratios to Full, and so are the paper's, whose LIBSVM has no bias and starts warm: its seconds are those
of 2014. LIBSVM shrinks for the first time after as many steps as it has rows, at most 1,000, and at many a C is done by
then. "open" is the share of rows that a rule leaves undecided; "cut" says at how many C LIBSVM ended at its most steps,
where its seconds are fewer than they should be.

python -m tests.bench.kernel_approaches [--data DIR] [--sets bcd,dna] [--gammas 0.1,1,10] [--every 10]
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import yaml
from sklearn import config_context

import pipeline
from pipeline.data.dataset import open_shards
from pipeline.engine.engine import Engine
from pipeline.maths.verdicts import KEEP, UPPER, verdicts
from pipeline.path.space import Point, Space
from pipeline.path.spaces import make_space, projected
from pipeline.runs.directory import Run
from pipeline.solve.gram import libsvm
from pipeline.solve.gram.problem import GramProblem
from pipeline.working.state import collect
from tests.bench.kernel_sets import SETS, SETTINGS, KernelSet, Seconds, add_arguments, open_set, warm_up
from tests.bench.six_approaches import APPROACHES

PAPER = yaml.safe_load((Path(__file__).parent / "paper_table4.yaml").read_text())


@dataclass
class Approach:
    """What one of the six did so far."""

    took: Seconds = field(default_factory=Seconds)
    screening: Seconds = field(default_factory=Seconds)
    left_open: list[float] = field(default_factory=list)
    worst: float = 0.0
    cut: int = 0

    def solve(self, whole: GramProblem, point: Point, c: float, rule: str, shrink: bool) -> None:
        """Train at one C from the point before it."""
        n = whole.u.size
        with self.took.counted(), self.screening.counted():
            found = (
                np.full(n, KEEP) if rule == "none" else verdicts(*point.proof(c, rule).bounds(slice(0, n), sharp=False))
            )
        kept, upper = np.flatnonzero(found == KEEP), np.flatnonzero(found == UPPER)
        alpha = np.zeros(n)
        alpha[upper] = whole.u[upper]
        if kept.size:
            encoded = libsvm.encode(reduced(whole, kept, upper))
            with config_context(assume_finite=True), self.took.counted():
                alpha[kept], steps = libsvm.train(encoded, libsvm.TOLERANCE, shrink)
            self.cut += steps >= libsvm.MOST_STEPS
        self.left_open.append(kept.size / n)
        self.worst = max(self.worst, relative_gap(whole, alpha))


def reduced(whole: GramProblem, kept: np.ndarray, upper: np.ndarray) -> GramProblem:
    """Return the problem over the rows that are kept, those at their bound folded."""
    if kept.size == whole.u.size:
        return whole
    fold = whole.q[np.ix_(kept, upper)] @ whole.u[upper]
    return GramProblem(whole.q[np.ix_(kept, kept)], whole.u[kept], fold)


def relative_gap(whole: GramProblem, alpha: np.ndarray) -> float:
    """Return the gap over all rows as a share of the primal value."""
    f = whole.q @ alpha
    gap = whole.gap(alpha, f)
    return gap / (gap + float(alpha.sum() - alpha @ f / 2))


def approaches(rows: KernelSet, gamma: float, every: int, out: Path) -> tuple[Run, dict[str, Approach]]:
    """Have the six take turns at every K-th C of the path."""
    run = pipeline.fit_path(rows.shards, out=out, gamma=f"{gamma!r}/d", workers=1, **SETTINGS)
    assert run.spec.gamma is not None
    q = rows.gram(run.spec.gamma)
    pairs = list(zip(run.steps, run.steps[1:], strict=False))[::every]
    with Engine("inline") as engine:
        space = space_of(engine, rows, run)
        for turn, (before, step) in enumerate([*pairs[:1], *pairs]):
            if turn <= 1:  # the first warms up
                found = {name: Approach() for name in APPROACHES}
            point = space.certify(before.c, space.carried(before, run.spec))
            whole = GramProblem(q, np.full(rows.n, step.c), np.zeros(rows.n))
            for name, (rule, shrink) in APPROACHES.items():
                found[name].solve(whole, point, step.c, rule, shrink)
        space.release()
    return run, found


def space_of(engine: Engine, rows: KernelSet, run: Run) -> Space:
    """Return the space that the run was in."""
    data = open_shards(rows.shards)
    state = collect(engine, data, run.spec, None)
    return make_space(engine, data, state, run.spec, projected(engine, data, run.spec))


def show(rows: KernelSet, gamma: float, run: Run, found: dict[str, Approach]) -> None:
    asked = len(found["Full"].left_open)
    full = found["Full"].took
    print(f"\n{rows.name}, gamma {gamma:g}/d: {asked} of {len(run.steps) - 1} C, Full {full.wall:.2f} s there")
    print(f"  {'':<16}" + "".join(f"{name:>12}" for name in found))
    paper = PAPER.get(SETS[rows.name].paper, {}).get(f"{gamma:g}/d")
    lines = {"here, wall": [each.took.wall / full.wall for each in found.values()]}
    lines["here, CPU"] = [each.took.cpu / full.cpu for each in found.values()]
    if paper is not None:
        by_name = dict(zip(PAPER["columns"], paper, strict=True))
        lines["paper"] = [by_name[name] / by_name["Full"] for name in found]
    lines["open"] = [float(np.mean(each.left_open)) for each in found.values()]
    lines["rule's share"] = [each.screening.wall / each.took.wall for each in found.values()]
    for what, values in lines.items():
        print(f"  {what:<16}" + "".join(f"{value:12.3f}" for value in values))
    print(f"  {'worst gap':<16}" + "".join(f"{each.worst:12.1e}" for each in found.values()))
    print(f"  {'cut':<16}" + "".join(f"{each.cut:12d}" for each in found.values()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser, [name for name, source in SETS.items() if source.paper in PAPER])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernel-") as scratch:
        folder = Path(scratch)
        warm_up(folder)
        for name in options.sets:
            rows = open_set(name, options.data, folder)
            print("\n" + rows.said())
            for gamma in options.gammas:
                run, found = approaches(rows, gamma, options.every, folder / f"{name}-{gamma:g}")
                show(rows, gamma, run, found)


if __name__ == "__main__":
    main()
