"""A model of another run as a pair on these data: of another C, or of yesterday's data.

The ball of design 3.1 needs nothing but a w and a feasible alpha. So whatever a stored model was trained on, its w is
one, and its alpha becomes one. Rows of shards that both data sets have keep theirs, cut to the box, also where several
became one, or one with new rows after it, as appends do (where no shard is the same, rows are matched by counting from
the first); rows that are gone take theirs with them. New rows that are
inside the margin of w get t u_i, all with the t in [0, 1] that is best for the dual: with w_0 the sum of the rows that
kept their alpha, S = sum u_i and delta = sum u_i z_i over the new rows inside,

    D(t) = sum alpha + t S - |w_0 + t delta|^2/2,    t = (S - w_0 . delta)/|delta|^2.

How good the match is decides how much the ball proves, never whether it is right: w_alpha is summed afresh, whatever
the run says of its model, and whatever has become of its files since.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.data.shards.digest import digest_rows, lanes_of
from pipeline.data.shards.sequence import DigestSequence
from pipeline.engine.engine import Engine
from pipeline.maths.ball import drift_of_sum
from pipeline.passes.products import products
from pipeline.passes.sums import row_sum
from pipeline.runs.run import StepView
from pipeline.spec import PathSpec
from pipeline.working.solver import LinearPair
from pipeline.working.state import RowState

ROUNDINGS = 8  # of a term of w_alpha besides the additions: products with u_i, t, a sum of two sums
NEARLY = 1 - 1e-12  # of u_i: an alpha at its bound stays there, though the ratio of two weights is rounded


def carried_pair(engine: Engine, data: Dataset, state: RowState, step: StepView, spec: PathSpec) -> LinearPair:
    """Carry a stored step's w and alpha over to these data, with the costs that ``spec`` gives them.

    One pass, and a few more if there are new rows.
    """
    c, alpha = float(step.c), state.empty()
    w = _fitted(step.model.w(), data.n_features)
    new = carry_over(step, data, alpha)
    follow_costs(step, state, alpha, c)
    _where_inside(engine, data, state, c, w, new)
    w_alpha = row_sum(engine, data, alpha)
    if new.any():
        delta = row_sum(engine, data, new)
        size = float(delta @ delta)
        t = min(1.0, max(0.0, (float(new.sum()) - float(w_alpha @ delta)) / size)) if size > 0.0 else 1.0
        for part in state.chunks():
            alpha[part] += t * new[part]
        w_alpha += t * delta
    reach = math.fsum(float(alpha[p] @ state.norms[p]) for p in state.chunks())
    same = step.fingerprint == data.fingerprint and spec.costs() == step.spec.costs()
    at_once = same and step.model.w_alpha() is None  # w is w_alpha: a vector less to multiply with
    return LinearPair(alpha, w_alpha if at_once else w, w_alpha, drift_of_sum(reach, data.n_rows + ROUNDINGS))


def follow_costs(step: StepView, state: RowState, alpha: np.ndarray, c: float) -> None:
    """Cut alpha to the box; where the classes' weights have changed, alpha keeps its share of it."""
    old, now = step.class_weights, state.class_weights
    for part in state.chunks():
        u, some = c * state.costs[part], alpha[part]
        if old != now:
            some *= np.where(state.labels[part] == 1, now[1] / old[1], now[0] / old[0])
            some[some >= u * NEARLY] = np.inf
        np.clip(some, 0.0, u, out=some)


def _where_inside(engine: Engine, data: Dataset, state: RowState, c: float, w: np.ndarray, new: np.ndarray) -> None:
    """Turn the ones of new rows into u_i for those inside the margin of w, else into 0; only their shards are read."""
    shards = tuple(s for s in data.shards if new[s.first_row : s.first_row + s.n_rows].any())
    if not shards:
        return
    some = replace(data, shards=shards)
    f, first = np.empty(some.n_rows), 0
    products(engine, some, [w], [f])
    for shard in shards:
        part = slice(shard.first_row, shard.first_row + shard.n_rows)
        new[part] *= np.where(f[first : first + shard.n_rows] < 1.0, c * state.costs[part], 0.0)
        first += shard.n_rows


def carry_over(step: StepView, data: Dataset, alpha: np.ndarray) -> np.ndarray:
    """Write the step's alpha to the rows of these data that it was trained on, 0 to others; return 1 for those."""
    if step.fingerprint == data.fingerprint:
        step.model.alpha(alpha)
        return np.zeros(alpha.size)
    old = step.model.alpha()
    new = np.ones(alpha.size)
    alpha[:] = 0.0
    shards = DigestSequence(step.data.shards)
    known = list(same_rows(shards, data)) if shards.starts[-1] == old.size else []  # early runs have no shards
    for here, there, rows in known:
        alpha[here : here + rows], new[here : here + rows] = old[there : there + rows], 0.0
    if not known:
        both = min(old.size, alpha.size)
        alpha[:both], new[:both] = old[:both], 0.0
    return new


def same_rows(old: DigestSequence, data: Dataset) -> Iterator[tuple[int, int, int]]:
    """Yield which rows are the same: the first here, the first there, and how many.

    A shard may begin with all the old ones after those that were found and go on with new rows: that is looked at once.
    """
    at, end, looked = 0, len(old.starts) - 1, False
    for shard in data.shards:
        found = old.find(lanes_of(shard.digest), shard.n_rows)
        rest = old.starts[end] - old.starts[at]
        if found is not None:
            yield shard.first_row, old.starts[found[0]], shard.n_rows
            at = found[1]
        elif 0 < rest < shard.n_rows and not looked:
            looked = True
            if digest_rows(shard.load().part(0, rest)) == old.joined(at, end):
                yield shard.first_row, old.starts[at], rest
                at = end


def _fitted(w: np.ndarray, n_features: int) -> np.ndarray:
    """Return w for that many features: new ones have weight 0, those that are gone are left out."""
    fitted = np.zeros(n_features)
    fitted[: min(w.size, n_features)] = w[:n_features]
    return fitted
