"""Worlds in a kernel's space: the same rows in shards, and vectors with the same inner products for the judges.

Q_ij = y_i y_j (exp(-gamma |x_i - x_j|^2) + B^2) in extended precision; a pivoted factorisation Q = Z Z^T gives rows z_i
that the oracle of the linear problem can work with. It shares no code with ``pipeline``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property

import numpy as np

from pipeline.runs.run import Run, StepView
from tests.oracle import LONG
from tests.worlds import ReadOnce, World, check_counts, check_verdicts

DIGITS = 60


@dataclass(frozen=True)
class KernelWorld(World):
    """Rows, labels and costs, seen through exp(-gamma |x - x'|^2) + bias^2."""

    gamma: float = 1.0

    @cached_property
    def q(self) -> np.ndarray:
        x = self.x.astype(LONG)
        far = ((x[:, None, :] - x[None, :, :]) ** 2).sum(axis=2)
        return np.outer(self.y, self.y) * (np.exp(-LONG(self.gamma) * far) + LONG(self.bias) ** 2)

    @cached_property
    def z(self) -> np.ndarray:
        return factor(self.q)

    def values(self, c: float, alpha: np.ndarray) -> tuple[LONG, LONG]:
        """Return P at w = sum alpha_i z_i, and D."""
        alpha = alpha.astype(LONG)
        f = np.dot(self.q, alpha)
        square = alpha @ f
        loss = LONG(c) * (self.costs.astype(LONG) @ np.maximum(0, 1 - f))
        return square / 2 + loss, alpha.sum() - square / 2


def factor(q: np.ndarray) -> np.ndarray:
    """Return Z with Z Z^T = Q up to 1e-18 of its diagonal: Cholesky with pivots, which stops where nothing is left."""
    rest, columns = q.copy(), []
    for _ in range(len(q)):
        p = int(np.argmax(np.diag(rest)))
        if rest[p, p] <= LONG(1e-18) * np.diag(q).max():
            break
        columns.append(rest[:, p] / np.sqrt(rest[p, p]))
        rest = rest - np.outer(columns[-1], columns[-1])
    return np.stack(columns, axis=1)


def check_kernel_run(world: KernelWorld, run: Run, oracle: bool = True) -> None:
    """Hold every step of a finished run against the world."""
    assert run.header.is_finished
    for step in map(ReadOnce, run.steps):
        check_values(world, step, run.spec.tol)
        check_counts(world, step)
        if oracle:
            check_verdicts(world, step.c, step.verdicts)
            found = world.optimum(step.c)
            assert step.dual <= float(found.primal) * (1 + 1e-12)
            assert step.primal >= float(found.dual) * (1 - 1e-12)


def check_values(world: KernelWorld, step: StepView | ReadOnce, tol: float) -> None:
    """P and D bound what alpha gives, and not by much; alpha is feasible; the gap is within the tolerance."""
    alpha, c = step.alpha, step.c
    assert np.all((alpha >= 0) & (alpha <= c * world.costs))
    primal, dual = world.values(c, alpha)
    own = LONG(1e-18) * len(alpha) * (alpha.sum() ** 2 * (1 + world.bias**2) + primal)  # the judge's own rounding
    assert step.primal >= primal - own
    assert step.dual <= dual + own
    assert 0.0 <= step.relative_gap <= tol
    assert step.primal - step.dual <= tol * step.primal * (1 + 1e-12)


def exact_values(world: KernelWorld, c: float, alpha: np.ndarray) -> tuple[Decimal, Decimal]:
    """Return P and D with 60 digits."""
    with localcontext() as context:
        context.prec = DIGITS
        x = [[Decimal(float(value)) for value in row] for row in world.x]
        y, costs = [Decimal(float(v)) for v in world.y], [Decimal(float(v)) for v in world.costs]
        a, n = [Decimal(float(v)) for v in alpha], len(x)
        gamma, shift, big = Decimal(world.gamma), Decimal(world.bias) ** 2, Decimal(float(c))
        f = []
        for i in range(n):
            total = Decimal(0)
            for j in range(n):
                far = sum(((p - q) ** 2 for p, q in zip(x[i], x[j], strict=True)), Decimal(0))
                total += y[i] * y[j] * ((-gamma * far).exp() + shift) * a[j]
            f.append(total)
        square = sum((p * q for p, q in zip(a, f, strict=True)), Decimal(0))
        loss = sum((k * max(Decimal(0), 1 - m) for k, m in zip(costs, f, strict=True)), Decimal(0))
        return square / 2 + big * loss, sum(a, Decimal(0)) - square / 2


def plain_kernel_world(n: int = 60, d: int = 4, seed: int = 0, gamma: float = 0.5, bias: float = 0.0) -> KernelWorld:
    """Rows inside or outside a ring, with noise: rows of all three kinds at every C."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = np.where((x**2).sum(axis=1) + rng.standard_normal(n) > d, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    x = np.column_stack([x, np.full(n, bias)]) if bias else x
    return KernelWorld(x, y, np.ones(n), bias, gamma=gamma)


def c_min_of(world: KernelWorld) -> float:
    """Return 1/max (Q c)_i in extended precision."""
    largest = float(np.max(world.q @ world.costs.astype(LONG), initial=0.0))
    return 1 / largest if largest > 0 else math.inf
