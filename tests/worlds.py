"""Small worlds for tests of the path: rows as dense arrays, the same in shards, and a judge of every finished step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.reading.labels import LabelMap
from pipeline.data.shards.directory import new_directory
from pipeline.data.shards.manifest import Manifest
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.shard import shard_name, write_shard
from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.runs.run import Run, StepView
from tests.oracle import LONG, Optimum, solve

ROUNDING = 1e-13


@dataclass(frozen=True)
class World:
    """Rows x_i (a bias column, if any, is the last one), labels and costs; ``optimum`` is the oracle's, remembered."""

    x: np.ndarray
    y: np.ndarray
    costs: np.ndarray
    bias: float = 0.0
    known: dict[float, Optimum] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def z(self) -> np.ndarray:
        return self.y[:, None] * self.x

    @cached_property
    def norms(self) -> np.ndarray:
        return np.linalg.norm(self.z, axis=1)

    @cached_property
    def c_min(self) -> float:
        z, costs = self.z.astype(LONG), self.costs.astype(LONG)
        largest = float(np.max(z @ (costs @ z), initial=0.0))
        return 1 / largest if largest > 0 else math.inf

    def optimum(self, c: float) -> Optimum:
        if c not in self.known:
            used = self.costs > 0
            found = solve(self.z[used], c, self.costs[used])
            alpha = np.zeros(self.costs.size, LONG)
            alpha[used] = found.alpha
            self.known[c] = replace(found, alpha=alpha, margins=self.z.astype(LONG) @ found.w)
        return self.known[c]

    def rows(self, chosen: np.ndarray) -> World:
        """Return some of the rows, in the order given."""
        return World(self.x[chosen], self.y[chosen], self.costs[chosen], self.bias)

    def weighed(self, costs: np.ndarray) -> World:
        """Return the same rows with other costs; 0 leaves a row out."""
        return World(self.x, self.y, np.asarray(costs, np.float64), self.bias)

    def primal(self, w: np.ndarray, c: float) -> float:
        w = np.asarray(w, LONG)
        return float(w @ w / 2 + LONG(c) * (self.costs @ np.maximum(0, 1 - self.z @ w)))

    def dual(self, alpha: np.ndarray) -> float:
        w = np.asarray(alpha, LONG) @ self.z
        return float(np.sum(alpha, dtype=LONG) - w @ w / 2)

    def blur(self, c: float, w: np.ndarray, alpha: np.ndarray) -> float:
        """What rounding may do to P and D in float64: margins times C, and w_alpha carried from step to step."""
        size, reach = float(np.linalg.norm(w)), float(alpha @ self.norms)
        margins = c * float(self.costs @ (1 + self.norms * size))
        return ROUNDING * (margins + size * size + float(alpha.sum()) + size * reach) + (ROUNDING * reach) ** 2


def plain_world(n: int = 120, d: int = 8, seed: int = 0, noise: float = 1.0) -> World:
    """Rows whose label is a noisy linear function of them: rows of all three kinds at every C."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = np.where(x @ np.linspace(-1, 1, d) + noise * rng.standard_normal(n) > 0, 1.0, -1.0)
    return World(x, y, np.ones(n))


def write_shards(folder: Path, world: World, cuts: Sequence[int] = ()) -> Dataset:
    """Write a world to shards that end at ``cuts``; values are stored as float32 where a shard allows it."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(world.y)}), len(world.y)]
    with new_directory(folder) as directory:
        shards = [
            write_shard(directory.path, shard_name(k), _rows(world, slice(start, stop)))
            for k, (start, stop) in enumerate(pairwise(edges))
        ]
        labels = LabelMap(("-1",), ("1",))
        directory.finish(Manifest(world.x.shape[1], labels, tuple(shards), bias=world.bias))
    return open_shards(folder)


def _rows(world: World, part: slice) -> Rows:
    x = sp.csr_array(world.x[part])
    values = x.data.astype(np.float32) if np.all(x.data.astype(np.float32) == x.data) else x.data
    indptr, indices = x.indptr.astype(np.int32), x.indices.astype(np.int32)
    labels = world.y[part].astype(np.int8)
    norms = np.linalg.norm(world.x[part], axis=1)
    return Rows(indptr, indices, values, labels, world.costs[part], norms, world.x.shape[1])


class ReadOnce:
    """A step of which all is read once, however often a judge asks: a vector of a model is half a millisecond."""

    def __init__(self, step: StepView) -> None:
        self._read = step

    def __getattr__(self, name: str) -> Any:
        self.__dict__[name] = getattr(self._read, name)
        return self.__dict__[name]


def check_run(world: World, run: Run, oracle: bool = True) -> None:
    """Hold every step of a finished run against the world; costs are those the run was to train with."""
    assert run.header.is_finished
    assert all(one.c < two.c for one, two in pairwise(run.steps))
    for step in map(ReadOnce, run.steps):
        check_certificate(world, step, run.spec.tol)
        check_counts(world, step)
        if oracle:
            check_optimum(world, step)
            check_verdicts(world, step.c, step.verdicts)


def check_certificate(world: World, step: StepView | ReadOnce, tol: float) -> None:
    """P and D are what the rows give, alpha is feasible, and the gap is within the tolerance."""
    w, alpha, c = step.w, step.alpha, step.c
    assert np.all((alpha >= 0) & (alpha <= c * world.costs))
    blur = world.blur(c, w, alpha) + 2 * float(np.linalg.norm(w)) * step.drift  # where not all rows were read
    assert abs(step.primal - world.primal(w, c)) <= blur
    assert abs(step.dual - world.dual(alpha)) <= blur
    assert step.primal >= step.dual
    assert abs(step.relative_gap - (step.primal - step.dual) / step.primal) <= 1e-15
    assert 0.0 <= step.relative_gap <= tol


def check_counts(world: World, step: StepView | ReadOnce) -> None:
    u, trained = step.c * world.costs, world.costs > 0
    verdicts = step.verdicts[trained]
    assert np.all(step.verdicts[~trained] == ZERO) or step.solver == "closed form"
    assert step.n_rows == np.count_nonzero(trained)
    assert step.screened_zero == np.count_nonzero(verdicts == ZERO)
    assert step.screened_upper == np.count_nonzero(verdicts == UPPER)
    assert step.survivors == np.count_nonzero(verdicts == KEEP)
    assert step.n_free == np.count_nonzero((step.alpha > 0) & (step.alpha < u))
    assert step.n_upper == np.count_nonzero((step.alpha == u) & trained)
    if step.rule == "none":
        assert step.survivors == step.n_rows


def check_optimum(world: World, step: StepView | ReadOnce) -> None:
    """The true optimum, which the oracle brackets, lies between the step's dual and primal values."""
    found, blur = world.optimum(step.c), world.blur(step.c, step.w, step.alpha)
    assert step.dual <= float(found.primal) + blur
    assert step.primal >= float(found.dual) - blur


def check_verdicts(world: World, c: float, verdicts: np.ndarray) -> None:
    """No verdict contradicts the optimum at C = ``c``: neither its margin nor its alpha.

    The oracle's margin is off by at most |z_i| times its distance from w*. A row on the margin has neither verdict: one
    with a free alpha is on it. Balls of float64 cannot tell a margin from 1 that is 1e-15 away; but they can tell one
    that is 1e-13 away, and are right, where the oracle's own alpha is off by 1e-4 of its box.
    """
    optimum, trained = world.optimum(c), world.costs > 0
    f = optimum.margins.astype(np.float64)
    doubt = world.norms * optimum.distance + 1e-15
    zero, upper = (verdicts == ZERO) & trained, (verdicts == UPPER) & trained
    wrong = (zero & (f < 1 - doubt)) | (upper & (f > 1 + doubt))
    share = (optimum.alpha / np.where(trained, c * world.costs, 1.0)).astype(np.float64)
    on_margin = np.abs(f - 1) <= 1e-15
    wrong |= on_margin & ((zero & (share > 1e-6)) | (upper & (share < 1 - 1e-6)))
    i = int(np.argmax(wrong))
    assert not wrong.any(), f"C = {c!r}: row {i} was screened as {verdicts[i]}, but has margin {f[i]!r}"
