"""What was tried to make dual coordinate descent's sweeps go further, and did not help: other orders, and two cores.

Sweeps to a relative gap of 1e-4 from alpha = 0, no shrinking, no subspace steps, at most 150 ("-": more):

- a new random order each sweep (what dcd does);
- one random order for all sweeps;
- every second sweep backwards over the order before it (a symmetric sweep);
- rows by the size of their projected gradient, largest first;
- two halves at once, each on its own copy of w, their steps then combined by the best (x_1, x_2) for the dual in
  [0, 1]^2: a sweep on two cores that gives the same bits on any machine. It pays if it takes less than twice as many.

python -m tests.bench.orders [--data a9a ...]
"""

from __future__ import annotations

import argparse

import numpy as np

from pipeline.jit import kernel
from pipeline.solve.dcd_kernel import add_row, product
from pipeline.solve.reduced import ReducedProblem
from pipeline.solve.rows import rows_of
from tests.bench.solvers import Bench

DATA = ["a9a", "digit1", "pcmac_asu", "imdb50k_uni", "nycflights13", "census_income_kdd"]
FACTORS = (1e1, 1e3)
GAP, MOST = 1e-4, 150


@kernel
def visit(rows, squares, u, alpha, w, order):
    """Visit rows in the order given; alpha and w change."""
    indptr, indices, values = rows
    for i in order:
        start, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        gradient = product(indices, values, start, end, w) - 1.0
        new = min(max(alpha[i] - gradient / squares[i], 0.0), u[i])
        if new != alpha[i]:
            add_row(indices, values, start, end, new - alpha[i], w)
            alpha[i] = new


class Sweeps:
    """One solve that starts from 0."""

    def __init__(self, problem: ReducedProblem) -> None:
        self.problem, self.rows = problem, rows_of(problem)
        z = problem.z.scipy()
        self.squares = np.maximum(np.asarray(z.multiply(z).sum(axis=1)).reshape(-1), 1e-300)
        self.alpha, self.w = np.zeros(z.shape[0]), np.zeros(z.shape[1])
        self.rng, self.turns = np.random.default_rng(0), 0
        self.order = self.rng.permutation(z.shape[0])

    def visit(self, alpha: np.ndarray, w: np.ndarray, order: np.ndarray) -> None:
        visit(self.rows, self.squares, self.problem.u, alpha, w, order)

    def random(self) -> None:
        self.visit(self.alpha, self.w, self.rng.permutation(self.alpha.size))

    def same(self) -> None:
        self.visit(self.alpha, self.w, self.order)

    def back(self) -> None:
        self.visit(self.alpha, self.w, self.order)
        self.turns += 1
        self.order = self.order[::-1].copy() if self.turns % 2 else self.rng.permutation(self.alpha.size)

    def largest(self) -> None:
        gradient, u = self.problem.z.times(self.w) - 1.0, self.problem.u
        gradient = np.where(self.alpha <= 0.0, np.minimum(gradient, 0.0), gradient)
        gradient = np.where(self.alpha >= u, np.maximum(gradient, 0.0), gradient)
        self.visit(self.alpha, self.w, np.argsort(-np.abs(gradient), kind="stable"))

    def halves(self) -> None:
        steps, images = [], []
        for half in np.array_split(self.order, 2):
            alpha, w = self.alpha.copy(), self.w.copy()
            self.visit(alpha, w, self.rng.permutation(half))
            steps.append(alpha - self.alpha)
            images.append(w - self.w)
        gain = [step.sum() - self.w @ image for step, image in zip(steps, images, strict=True)]
        gram = [[a @ b for b in images] for a in images]
        x = np.clip(np.linalg.lstsq(np.array(gram), np.array(gain))[0], 0.0, 1.0)
        self.alpha = np.clip(self.alpha + x[0] * steps[0] + x[1] * steps[1], 0.0, self.problem.u)
        self.w = self.problem.combine(self.alpha)

    def needed(self, kind: str, target: float) -> str:
        for count in range(1, MOST + 1):
            getattr(self, kind)()
            if self.problem.gap(self.problem.combine(self.alpha), self.alpha) <= target:
                return str(count)
        return "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=DATA)
    kinds = ("random", "same", "back", "largest", "halves")
    print(f"{'sweeps to 1e-4':26}" + "".join(f"{kind:>9}" for kind in kinds))
    for name in parser.parse_args().data:
        bench = Bench(name, 60.0)
        for factor in FACTORS:
            problem = bench.at(factor * bench.c_min)
            target = GAP * bench.primal(problem, bench.best(problem, None, GAP / 10).w)
            found = [Sweeps(problem).needed(kind, target) for kind in kinds]
            print(f"{name:<18}{factor:8.0e}" + "".join(f"{sweeps:>9}" for sweeps in found), flush=True)


if __name__ == "__main__":
    main()
