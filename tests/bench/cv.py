"""Five folds and ten C, as a whole command from shards, against scikit-learn's grid search in memory.

Ours: ``svmsieve tune SHARDS --cv 5 --grid 10x:10000x:10`` (C log-spaced from 10 to 10^4 C_min), a process of its own
with start-up: 50 models of folds and one on all rows, each certified to a relative gap of 1e-4; the scores too.

Theirs: ``GridSearchCV(LinearSVC(loss="hinge", fit_intercept=False), n_jobs=2, cv=5)`` at the same C on the same rows,
which are in memory; 50 models of folds and one on all rows. It is the same problem: no intercept, no weights. Each C
has the loosest tol of ``TOLERANCES`` at which LinearSVC on all rows reaches a relative gap of 1e-4, judged by its
primal value and our certified lower bound of the optimum; finding that is not timed. Where no tol gets there within
``--max-iter`` (scikit-learn's default) the tightest counts with the time that it takes, and how many C these are is
printed. Its processes are started before the clock is.

Commands and peers take turns, ``--rounds`` times; the ratio is that of the best times.

python -m tests.bench.cv [--sets a9a ...] [--rounds 1] [--rows N]
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import pipeline
from pipeline.runs.run import Run
from tests.bench.many import Memory, arguments, command, open_memory
from tests.bench.measure import verdict
from tests.bench.path import load_compiled

SETS = ("a9a", "imdb50k_uni", "census_income_kdd", "kddcup99_10pct")
GRID, FOLDS, TOL = "10x:10000x:10", 5, 1e-4
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4)


@dataclass(frozen=True)
class Peer:
    """scikit-learn on rows in memory; ``tols`` are by C, ``failed`` the C at which none was tight enough."""

    rows: Memory
    tols: dict[float, float]
    failed: list[float]
    max_iter: int

    @classmethod
    def fitted_to(cls, rows: Memory, run: Run, max_iter: int) -> Peer:
        """Find the tol of each C of a run: at a larger C it is not looser."""
        tols, failed, first = dict[float, float](), list[float](), 0
        for step in run.steps:
            arrives = (k for k in range(first, len(TOLERANCES)) if cls._gap(rows, step, TOLERANCES[k], max_iter) <= TOL)
            found = next(arrives, None)
            if found is None:
                failed.append(step.c)
            first = max(0, len(TOLERANCES) - 1 if found is None else found - 1)
            tols[step.c] = TOLERANCES[-1 if found is None else found]
        return cls(rows, tols, failed, max_iter)

    @staticmethod
    def _gap(rows: Memory, step: pipeline.StepView, tol: float, max_iter: int) -> float:
        machine = LinearSVC(loss="hinge", fit_intercept=False, C=step.c, tol=tol, max_iter=max_iter, random_state=0)
        w = machine.fit(rows.x, rows.y).coef_[0]
        primal = float(w @ w) / 2 + step.c * float(np.maximum(0.0, 1.0 - rows.y * (rows.x @ w)).sum())
        return (primal - step.dual) / primal

    def search(self) -> float:
        """Search the grid; return the seconds."""
        machine = LinearSVC(loss="hinge", fit_intercept=False, max_iter=self.max_iter, random_state=0)
        grid = [{"C": [c], "tol": [tol]} for c, tol in self.tols.items()]
        begin = time.perf_counter()
        GridSearchCV(machine, grid, n_jobs=2, cv=FOLDS).fit(self.rows.x, self.rows.y)
        return time.perf_counter() - begin


def compare(name: str, folder: Path, options: argparse.Namespace) -> float:
    rows = open_memory(name, options)
    print(rows.said(), flush=True)
    shards, peer = rows.shards(folder / name), None
    ours, theirs = math.inf, math.inf
    for k in range(options.rounds):
        out = folder / f"{name}-{k}"
        ours = min(ours, command("tune", shards, "--cv", FOLDS, "--grid", GRID, "--tol", TOL, "--out", out))
        runs = [pipeline.open_run(path.parent) for path in out.rglob("run.json")]
        assert len(runs) == FOLDS + 1
        assert max(step.relative_gap for run in runs for step in run.steps) <= TOL
        if peer is None:
            whole = pipeline.fit_path(shards, grid=pipeline.open_run(out).header.cv_c, tol=TOL)
            peer = Peer.fitted_to(rows, whole, options.max_iter)
        theirs = min(theirs, peer.search())
    assert peer is not None
    tols = ", ".join(f"{tol:g}" for tol in peer.tols.values())
    print(f"  svmsieve {ours:.1f} s, GridSearchCV {theirs:.1f} s; its tol by C: {tols}")
    print(
        f"  LinearSVC does not reach the gap at {len(peer.failed)} of {len(peer.tols)} C with {options.max_iter} sweeps"
    )
    print(f"  GridSearchCV's time over ours {theirs / ours:.2f}", flush=True)
    return theirs / ours


def main() -> None:
    parser = arguments(__doc__, SETS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--max-iter", type=int, default=1000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # that LinearSVC did not converge is counted
    os.environ["PYTHONWARNINGS"] = "ignore"
    with tempfile.TemporaryDirectory(prefix="cv-") as folder:
        home = Path(folder)
        load_compiled(home / "small")
        command("tune", home / "small", "--cv", 2, "--grid", "10x:100x:2", "--out", home / "small-run")
        few = Memory("few", sp.csr_matrix(np.eye(20)), np.resize([1.0, -1.0], 20))
        Peer(few, {1.0: 0.1}, [], 100).search()  # its processes are there from now on
        ratios = {name: compare(name, home, options) for name in options.sets}
    worst = min(ratios, key=ratios.__getitem__)
    print(verdict(f"GridSearchCV's time over ours, worst ({worst})", ratios[worst], 5.0))


if __name__ == "__main__":
    main()
