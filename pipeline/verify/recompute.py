"""What stored models are worth, from the rows alone: the sums behind a certificate, computed a second time.

For each model (w, alpha) at C, with effective costs c_i (0 for rows that were not trained on):

    P = |w|^2/2 + C sum c_i max(0, 1 - y_i x_i.w),    D = sum alpha_i - |w_alpha|^2/2,    w_alpha = sum alpha_i y_i x_i,

both enclosed: sums in twice the precision (see ``twofold``) with a bound of what even those lose, put together as exact
fractions. With them whether 0 <= alpha_i <= C c_i, how far the stored w_alpha is from this one, and what the model says
of rows (see ``judge_rows``). Many models a pass, and nothing from ``maths``: a mistake there must not be able to hide
here. Memory: the costs, a few copies of a shard a worker, and ``BATCH_BYTES`` for the models (or one model, if that is
more).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp

from pipeline.data.dataset import Dataset, Shard
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.verify import twofold
from pipeline.verify.enclosure import enclosed
from pipeline.verify.judge_rows import EPS
from pipeline.verify.stored_model import Model
from pipeline.verify.tally import BATCH_BYTES, Contribution, Margins, Models, Tally, Worth, columns, models_of, part_of


def batch_size(data: Dataset, workers: int, held_out: int = 0) -> int:
    """Return how many models a pass may take.

    Theirs are alpha and verdicts, margins of rows left out, w, w_alpha as stored and as it is in two parts; a worker's
    are three numbers a row and five a feature of its shard.
    """
    rows = max(shard.n_rows for shard in data.shards)
    features = min(data.n_features, max(shard.nnz for shard in data.shards))
    in_shards = workers * (4 * rows + 5 * features)
    a_model = 8 * (data.n_rows + 2 * held_out + 5 * data.n_features + in_shards) + data.n_rows // 4
    return max(1, BATCH_BYTES // a_model)


@dataclass(frozen=True)
class _Part:
    """What a shard contributes: to w_alpha over the features that occur in it, and by row."""

    features: np.ndarray
    high: np.ndarray
    low: np.ndarray
    rows: Contribution


def recompute(
    engine: Engine, data: Dataset, costs: np.ndarray, models: Sequence[Model], seen: Callable[[int], None]
) -> list[Worth]:
    """Return what each model is worth, in one pass over all rows; ``seen`` is told of every shard's number of rows."""
    w, batch = columns([m.w for m in models], data.n_features), models_of(models, costs)
    high, low = np.zeros((data.n_features, len(models))), np.zeros((data.n_features, len(models)))
    tally = Tally(batch)
    with np.errstate(over="ignore", invalid="ignore"):  # an absurd w is a finding, not a warning
        for shard, part in zip(data.shards, engine.stream(_shard_part, data.shards, w, *batch), strict=True):
            sums = high[part.features], low[part.features]
            twofold.add_to(*sums, part.high, part.low)
            high[part.features], low[part.features] = sums
            tally.add(part.rows)
            seen(shard.n_rows)
        twofold.normalise(high, low)
        squares = zip(twofold.squares(w, np.zeros_like(w)), twofold.squares(high, low), strict=True)
        stored = columns([m.w_alpha for m in models], data.n_features)
        apart, between = (_sizes((high - x) + low).tolist() for x in (stored, w))
        found = [enclosed(float(batch.c[k]), tally.sums(k), *both, data.n_features) for k, both in enumerate(squares)]
        return [tally.values(k, each, apart[k], between[k]) for k, each in enumerate(found)]


def _sizes(x: np.ndarray) -> np.ndarray:
    """Return the norms of columns, without overflow or underflow."""
    largest = np.abs(x).max(axis=0, initial=0.0)
    scale = np.where(largest > 0.0, largest, 1.0)
    x = x / scale
    return scale * np.sqrt(np.einsum("ij,ij->j", x, x))


def _shard_part(shard: Shard, w: np.ndarray, *shared: np.ndarray) -> _Part:
    """Return what a shard contributes to every model's sums."""
    models = Models(*shared)
    rows, first, count = shard.load(), shard.first_row, models.c.size
    x, features = without_empty_columns(rows.csr())
    mine, lengths = slice(first, first + shard.n_rows), np.diff(x.indptr).astype(np.float64)
    matrix = x.indptr, x.indices, x.data, rows.labels.astype(np.float64)
    f, error, size = (np.zeros((shard.n_rows, count)) for _ in range(3))
    high, low, alpha_sum = np.zeros((features.size, count)), np.zeros((features.size, count)), np.zeros((2, count))
    twofold.products(matrix, w[features], f, error, size)
    twofold.row_sums(matrix, models.costs[mine], models.c, models.alpha[mine], high, low, alpha_sum)
    margins = Margins(f, error, size, lengths, np.zeros(shard.n_rows), EPS * (lengths + 2.0), np.zeros(1))
    norms = twofold.row_norms(x.indptr, x.data)
    return _Part(features, high, low, part_of(models, first, norms, margins, alpha_sum))


def without_empty_columns(x: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
    """Return the rows over the features that occur in them, in float64, and which those are."""
    occurs = np.zeros(x.shape[1], np.bool_)
    occurs[x.indices] = True
    features = np.flatnonzero(occurs)
    place = np.empty(x.shape[1], np.int32)
    place[features] = np.arange(features.size)
    values = x.data.astype(np.float64)
    return sp.csr_array((values, place[x.indices], x.indptr), shape=(x.shape[0], features.size)), features
