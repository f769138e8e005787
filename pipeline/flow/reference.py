"""A model of another run as the reference point on these data: of another C, or of yesterday's data.

The ball of design 3.1 needs nothing but a w and a feasible alpha. So whatever a stored model was trained on, its w is
one, and its alpha becomes one: rows of shards that both data sets have keep theirs, cut to the box (where no shard is
the same, rows are matched by counting from the first); rows without one get u_i where they are inside the margin of w;
rows that are gone take theirs with them. How good the match is decides how much the ball proves, never whether it is
right.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.flow.passes import products, row_sum
from pipeline.flow.point import Certifier, Point
from pipeline.flow.run_directory import StepView
from pipeline.maths.ball import drift_of_sum
from pipeline.spec import PathSpec


def reference_point(certifier: Certifier, step: StepView, spec: PathSpec) -> Point:
    """Certify a stored step's w and alpha on the certifier's data, with the costs that ``spec`` gives them.

    One pass, and two more if data or costs are others than the step's.
    """
    arrays, data, engine = certifier.arrays, certifier.data, certifier.engine
    c = float(step.c)
    if step.fingerprint == data.fingerprint and spec.costs() == step.spec.costs():
        w = step.model.w()
        step.model.alpha(arrays.alpha)
        apart = step.model.w_alpha()
        return certifier.point(c, w, w if apart is None else apart, step.drift)
    w = _fitted(step.model.w(), data.n_features)
    arrays.alpha[:] = 0.0
    _carry_over(step, data, arrays.alpha)
    products(engine, data, [w], arrays.need_products(1))
    for part in arrays.chunks():
        u, alpha = c * arrays.costs[part], arrays.alpha[part]
        alpha[:] = np.where((alpha == 0.0) & (arrays.products[0][part] < 1.0), u, np.minimum(alpha, u))
    w_alpha = row_sum(engine, data, arrays.alpha)
    reach = math.fsum(float(arrays.alpha[p] @ arrays.norms[p]) for p in arrays.chunks())
    return certifier.point(c, w, w_alpha, drift_of_sum(reach, data.n_rows + 2))


def _carry_over(step: StepView, data: Dataset, alpha: np.ndarray) -> None:
    """Write the step's alpha to the rows of these data that it was trained on."""
    old = step.model.alpha()
    places, first = {}, 0
    for digest, rows in step.data.get("shards", ()):  # runs of older versions have none
        places[digest] = first
        first += rows
    known = [shard for shard in data.shards if shard.digest in places]
    for shard in known:
        part = slice(shard.first_row, shard.first_row + shard.n_rows)
        alpha[part] = old[places[shard.digest] :][: shard.n_rows]
    if not known:
        both = min(old.size, alpha.size)
        alpha[:both] = old[:both]


def _fitted(w: np.ndarray, n_features: int) -> np.ndarray:
    """Return w for that many features: new ones have weight 0, those that are gone are left out."""
    fitted = np.zeros(n_features)
    fitted[: min(w.size, n_features)] = w[:n_features]
    return fitted
