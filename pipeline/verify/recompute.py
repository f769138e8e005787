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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from pipeline.data.dataset import Dataset, Shard
from pipeline.engine.engine import Engine
from pipeline.verify import judge_rows, twofold
from pipeline.verify.enclosure import Enclosure, TwofoldSums, enclosed
from pipeline.verify.stored_model import Entries, Model

BATCH_BYTES = 256_000_000
HINGE, ALPHA, PAIRS = slice(0, 2), slice(2, 4), 4  # where the sums of a shard that come in two parts are
PLAIN = ("blur", "rounding", "reach")  # and those that do not


@dataclass(frozen=True)
class Values:
    """What a model is worth. ``outside`` is the first row whose alpha is not in its box, with alpha and C c_i.

    ``apart`` is |w_alpha as stored - w_alpha|, ``between`` |w - w_alpha|. What plain float64 is judged by:
    ``rounding`` is what it can do to P by the margins; ``reach`` = sum alpha_i |z_i| is the magnitude of w_alpha's
    terms, most of which cancel. ``furthest`` is the row with the falsest verdict, and how false (see ``judge_rows``).
    ``margins`` are those of the rows left out, and what plain float64 can do to each.
    """

    enclosure: Enclosure | None
    apart: float
    between: float
    rounding: float
    reach: float
    n_free: int
    n_upper: int
    outside: tuple[int, float, float] | None
    screened_zero: int
    screened_upper: int
    furthest: tuple[int, float]
    margins: tuple[np.ndarray, np.ndarray]


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


class _Batch(NamedTuple):
    """The models of a pass, column by column, and the rows' costs."""

    w: np.ndarray
    alpha: np.ndarray
    c: np.ndarray
    zero: np.ndarray
    upper: np.ndarray
    costs: np.ndarray


@dataclass(frozen=True)
class _Part:
    """What a shard contributes: to w_alpha over the features that occur in it, to the sums, and by row."""

    features: np.ndarray
    high: np.ndarray
    low: np.ndarray
    pairs: np.ndarray
    plain: np.ndarray
    counts: np.ndarray
    screened: np.ndarray
    furthest: np.ndarray
    margins: tuple[np.ndarray, np.ndarray]


def recompute(
    engine: Engine, data: Dataset, costs: np.ndarray, models: Sequence[Model], seen: Callable[[int], None]
) -> list[Values]:
    """Return what each model is worth, in one pass over all rows; ``seen`` is told of every shard's number of rows."""
    zero, upper = np.array([m.zero for m in models]), np.array([m.upper for m in models])
    w, alpha = columns([m.w for m in models], data.n_features), columns([m.alpha for m in models], data.n_rows)
    batch = _Batch(w, alpha, np.array([model.c for model in models]), zero, upper, costs)
    total = _Total(data, len(models))
    with np.errstate(over="ignore", invalid="ignore"):  # an absurd w is a finding, not a warning
        for shard, part in zip(data.shards, engine.stream(_shard_part, data.shards, *batch), strict=True):
            total.add(part)
            seen(shard.n_rows)
        return total.values(batch, columns([m.w_alpha for m in models], data.n_features))


class _Total:
    """The sums over all shards, in shard order."""

    def __init__(self, data: Dataset, models: int) -> None:
        self.n_rows, self.n_shards = data.n_rows, len(data.shards)
        self.high, self.low = np.zeros((data.n_features, models)), np.zeros((data.n_features, models))
        self.pairs, self.plain = np.zeros((PAIRS, models)), np.zeros((len(PLAIN), models))
        self.counts, self.screened = _no_counts(models, data.n_rows), np.zeros((2, models), np.int64)
        self.furthest = _nothing_far(models)
        self.margins: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, part: _Part) -> None:
        """Add a shard's part."""
        high, low = self.high[part.features], self.low[part.features]
        twofold.add_to(high, low, part.high, part.low)
        self.high[part.features], self.low[part.features] = high, low
        for pair in (HINGE, ALPHA):
            twofold.add_to(*self.pairs[pair], *part.pairs[pair])
        self.plain += part.plain
        self.screened += part.screened
        self.counts[:2] += part.counts[:2]
        self.counts[2] = np.minimum(self.counts[2], part.counts[2])
        self.furthest = np.where(part.furthest[0] > self.furthest[0], part.furthest, self.furthest)
        self.margins.append(part.margins)

    def values(self, batch: _Batch, stored_w_alpha: np.ndarray) -> list[Values]:
        """Return what the models are worth."""
        twofold.normalise(self.high, self.low)
        w, w_alpha = twofold.squares(batch.w, np.zeros_like(batch.w)), twofold.squares(self.high, self.low)
        apart, between = (_sizes((self.high - x) + self.low) for x in (stored_w_alpha, batch.w))
        f, doubt = (np.concatenate([part[k] for part in self.margins]) for k in (0, 1))
        found = []
        for k, c in enumerate(batch.c):
            blur, rounding, reach = (float(x) for x in self.plain[:, k])
            first, terms = int(self.counts[2, k]), self.n_rows + self.n_shards
            hinge, alpha = (tuple(self.pairs[pair, k].tolist()) for pair in (HINGE, ALPHA))
            sums = TwofoldSums(hinge, alpha, blur, reach, terms)
            outside = None
            if first < self.n_rows:
                outside = first, float(batch.alpha[first, k]), float(c * batch.costs[first])
            found.append(
                Values(
                    enclosure=enclosed(float(c), sums, w[k], w_alpha[k], batch.w.shape[0]),
                    apart=float(apart[k]),
                    between=float(between[k]),
                    rounding=float(c * rounding),
                    reach=reach,
                    n_free=int(self.counts[0, k]),
                    n_upper=int(self.counts[1, k]),
                    outside=outside,
                    screened_zero=int(self.screened[0, k]),
                    screened_upper=int(self.screened[1, k]),
                    furthest=(int(self.furthest[1, k]), float(self.furthest[0, k])),
                    margins=(f[:, k], doubt[:, k]),
                )
            )
        return found


def columns(vectors: Sequence[Entries], size: int) -> np.ndarray:
    """Return sparse vectors as the columns of a dense array."""
    full = np.zeros((size, len(vectors)))
    for k, (index, value) in enumerate(vectors):
        full[index, k] = value
    return full


def _sizes(x: np.ndarray) -> np.ndarray:
    """Return the norms of columns, without overflow or underflow."""
    largest = np.abs(x).max(axis=0, initial=0.0)
    scale = np.where(largest > 0.0, largest, 1.0)
    x = x / scale
    return scale * np.sqrt(np.einsum("ij,ij->j", x, x))


def _no_counts(models: int, n_rows: int) -> np.ndarray:
    return np.array([[0] * models, [0] * models, [n_rows] * models])


def _nothing_far(models: int) -> np.ndarray:
    return np.full((2, models), -1.0)


def _shard_part(shard: Shard, *shared: np.ndarray) -> _Part:
    """Return what a shard contributes to every model's sums."""
    batch = _Batch(*shared)
    rows, first = shard.load(), shard.first_row
    x, features = without_empty_columns(rows.csr())
    mine, models = slice(first, first + shard.n_rows), batch.c.size
    y, lengths = rows.labels.astype(np.float64), np.diff(x.indptr).astype(np.float64)
    costs, alpha, norms = batch.costs[mine], batch.alpha[mine], twofold.row_norms(x.indptr, x.data)
    matrix = x.indptr, x.indices, x.data, y
    f, error, size = (np.zeros((shard.n_rows, models)) for _ in range(3))
    high, low = np.zeros((features.size, models)), np.zeros((features.size, models))
    pairs, plain, screened = np.zeros((PAIRS, models)), np.zeros((len(PLAIN), models)), np.zeros((2, models), np.int64)
    counts, furthest, hinge = _no_counts(models, batch.costs.size), _nothing_far(models), np.zeros((3, models))
    twofold.products(matrix, batch.w[features], f, error, size)
    twofold.hinges(lengths, costs, np.zeros(shard.n_rows), f, error, size, hinge)
    pairs[HINGE], plain[0] = hinge[:2], hinge[2]
    twofold.row_sums(matrix, costs, batch.c, alpha, high, low, pairs[ALPHA])
    judge_rows.rounding_of_margins(lengths, costs, f, size, plain[1])
    judge_rows.boxes(first, costs, batch.c, alpha, norms, plain[2], counts)
    judge_rows.verdicts(first, costs, norms, f, error, batch.zero, batch.upper, screened, furthest)
    held = np.flatnonzero(costs == 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        doubt = judge_rows.EPS * (lengths[held] + 2.0)[:, None] * size[held]
    return _Part(features, high, low, pairs, plain, counts, screened, furthest, (f[held], doubt))


def without_empty_columns(x: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
    """Return the rows over the features that occur in them, in float64, and which those are."""
    occurs = np.zeros(x.shape[1], np.bool_)
    occurs[x.indices] = True
    features = np.flatnonzero(occurs)
    place = np.empty(x.shape[1], np.int32)
    place[features] = np.arange(features.size)
    values = x.data.astype(np.float64)
    return sp.csr_array((values, place[x.indices], x.indptr), shape=(x.shape[0], features.size)), features
