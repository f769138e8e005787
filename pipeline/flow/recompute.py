"""What stored models are worth, from the rows alone: the sums behind a certificate, computed a second time.

For each model (w, alpha) at C, with effective costs c_i (0 for rows that were not trained on):

    P = |w|^2/2 + C sum c_i max(0, 1 - y_i x_i.w),    D = sum alpha_i - |w_alpha|^2/2,    w_alpha = sum alpha_i y_i x_i,

whether 0 <= alpha_i <= C c_i, and how far the stored w_alpha is from this one. Plain NumPy and SciPy products, many
models a pass, and nothing from ``maths``: a mistake there must not be able to hide here. Memory: the costs, a few
copies of a shard a worker, and ``BATCH_BYTES`` for the models (or one model, if that is more).
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from pipeline.data.dataset import Dataset, Shard
from pipeline.data.digest import Lanes, digest_rows, fingerprint, row_hashes
from pipeline.engine.engine import Engine
from pipeline.errors import DatasetError, RunError
from pipeline.flow.row_arrays import left_out
from pipeline.spec import PathSpec

BATCH_BYTES = 256_000_000
EPS = float(np.finfo(np.float64).eps)

Entries = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Model:
    """A model as it is stored, index and value of what is not zero; w_alpha is w unless it is stored apart."""

    c: float
    w: Entries
    alpha: Entries
    w_alpha: Entries


@dataclass(frozen=True)
class Values:
    """What a model is worth. ``outside`` is the first row whose alpha is not in its box, with alpha and C c_i.

    ``apart`` is |w_alpha as stored - w_alpha|. What differences are judged by: ``blur`` bounds what the rounding of
    margins can do to P; ``reach`` = sum alpha_i |z_i| is the magnitude of w_alpha's terms, most of which cancel, and
    ``magnitude`` = sum alpha_i + |w_alpha| reach that of D's.
    """

    primal: float
    dual: float
    apart: float
    blur: float
    reach: float
    magnitude: float
    n_free: int
    n_upper: int
    outside: tuple[int, float, float] | None

    @property
    def relative_gap(self) -> float:
        """(P - D)/P."""
        return (self.primal - self.dual) / self.primal if self.primal > 0 else 0.0


def read_model(path: Path, n_rows: int, n_features: int) -> Model:
    """Read a model that must fit the data; RunError says what is wrong with it."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            if (shape := (int(stored["n_rows"]), int(stored["n_features"]))) != (n_rows, n_features):
                raise ValueError(f"it has {shape[0]} rows and {shape[1]} features, the data {n_rows} and {n_features}")
            w, alpha = _entries(stored, "w", n_features), _entries(stored, "alpha", n_rows)
            w_alpha = _entries(stored, "w_alpha", n_features) if "w_alpha_index" in stored else w
            return Model(float(stored["c"]), w, alpha, w_alpha)
    except (OSError, ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(f"the model is missing or damaged ({error})") from error


def _entries(stored: Mapping[str, np.ndarray], name: str, size: int) -> Entries:
    index, value = stored[f"{name}_index"], stored[f"{name}_value"]
    if index.ndim != 1 or index.shape != value.shape or not np.isfinite(value).all():
        raise ValueError(f"{name} is not a list of finite numbers")
    if index.size and (index[0] < 0 or index[-1] >= size or (np.diff(index) <= 0).any()):
        raise ValueError(f"the indices of {name} do not ascend from 0 to at most {size - 1}")
    return index, value


def effective_costs(engine: Engine, data: Dataset, spec: PathSpec) -> np.ndarray:
    """Return c_i of all rows: cost times class weight, 0 for rows left out; the data must have their fingerprint."""
    costs, labels = np.empty(data.n_rows), np.empty(data.n_rows, np.int8)
    digests: list[tuple[Lanes, int]] = []
    row = 0
    for signs, some, lanes in engine.stream(_shard_costs, data.shards, spec):
        part = slice(row, row + some.size)
        labels[part], costs[part] = signs, some
        digests.append((lanes, some.size))
        row = part.stop
    assert row == data.n_rows
    if fingerprint(digests, data.n_features) != data.fingerprint:
        raise DatasetError(f"{data.path}: the rows are not those of its fingerprint; ingest the data again")
    counts = {y: int(np.count_nonzero(costs[labels == y])) for y in (-1, 1)}
    if isinstance(spec.class_weight, str):  # balanced
        weights = {y: (counts[-1] + counts[1]) / (2 * counts[y]) for y in counts}
    else:
        negative, positive = spec.class_weight or (1.0, 1.0)
        weights = {-1: float(negative), 1: float(positive)}
    for y, weight in weights.items():
        costs[labels == y] *= weight
    return costs


def _shard_costs(shard: Shard, spec: PathSpec) -> tuple[np.ndarray, np.ndarray, Lanes]:
    rows = shard.load()
    splitting = bool(spec.holdout or spec.fold)
    costs = np.where(left_out(row_hashes(rows), spec), 0.0, rows.costs) if splitting else np.array(rows.costs)
    return np.array(rows.labels), costs, digest_rows(rows)


def batch_size(data: Dataset, workers: int) -> int:
    """Return how many models a pass may take: alpha, w, w_alpha twice, and what the workers hold for their shards."""
    rows = max(shard.n_rows for shard in data.shards)
    features = min(data.n_features, max(shard.nnz for shard in data.shards))
    a_model = 8 * (data.n_rows + 3 * data.n_features + workers * (6 * rows + 4 * features))
    return max(1, BATCH_BYTES // a_model)


def recompute(
    engine: Engine, data: Dataset, costs: np.ndarray, models: Sequence[Model], seen: Callable[[int], None]
) -> list[Values]:
    """Return what each model is worth, in one pass over all rows; ``seen`` is told of every shard's number of rows."""
    w, alpha = _columns([m.w for m in models], data.n_features), _columns([m.alpha for m in models], data.n_rows)
    c = np.array([model.c for model in models])
    w_alpha, total = np.zeros_like(w), np.zeros((6, c.size))
    first_outside = np.full(c.size, data.n_rows)
    with np.errstate(over="ignore", invalid="ignore"):  # an absurd w is a finding, not a warning
        w_square = np.einsum("ij,ij->j", w, w)
        shared = w, np.sqrt(w_square), alpha, c, costs
        for shard, part in zip(data.shards, engine.stream(_shard_sums, data.shards, *shared), strict=True):
            features, part_of_w_alpha, sums, outside = part
            w_alpha[features] += part_of_w_alpha
            total += sums
            first_outside = np.minimum(first_outside, outside)
            seen(shard.n_rows)
        square = np.einsum("ij,ij->j", w_alpha, w_alpha)
        hinge, blur, alpha_sum, reach, free, upper = total
        primal, dual = w_square / 2 + c * hinge, alpha_sum - square / 2
        magnitude = alpha_sum + np.sqrt(square) * reach
        w_alpha -= _columns([m.w_alpha for m in models], data.n_features)
        apart = np.sqrt(np.einsum("ij,ij->j", w_alpha, w_alpha))
    return [
        Values(
            primal=float(primal[k]),
            dual=float(dual[k]),
            apart=float(apart[k]),
            blur=float(c[k] * blur[k]),
            reach=float(reach[k]),
            magnitude=float(magnitude[k]),
            n_free=int(free[k]),
            n_upper=int(upper[k]),
            outside=None if row == data.n_rows else (int(row), float(alpha[row, k]), float(c[k] * costs[row])),
        )
        for k, row in enumerate(first_outside)
    ]


def _columns(vectors: Sequence[Entries], size: int) -> np.ndarray:
    full = np.zeros((size, len(vectors)))
    for k, (index, value) in enumerate(vectors):
        full[index, k] = value
    return full


def _shard_sums(
    shard: Shard, w: np.ndarray, w_norm: np.ndarray, alpha: np.ndarray, c: np.ndarray, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return for every model this shard's part of w_alpha, over the features that occur here, and of the sums.

    The sums: hinge; its blur; alpha; alpha_i |z_i|; free and upper alphas. With them, the first row outside its box. A
    margin of m products is off by at most m EPS/2 |z_i||w|, 1 minus it by EPS/2 more, here and in the run alike.
    """
    rows, mine = shard.load(), slice(shard.first_row, shard.first_row + shard.n_rows)
    x, features = _compact(rows.csr())
    y, cost, a = rows.labels.astype(np.float64)[:, None], costs[mine], alpha[mine]
    norms = np.sqrt(x.multiply(x).sum(axis=1))
    u = cost[:, None] * c
    free, upper, outside = (a > 0.0) & (a < u), (a == u) & (u > 0.0), (a < 0.0) | (a > u)
    with np.errstate(over="ignore", invalid="ignore"):
        f = y * (x @ w[features])
        blur = EPS * (np.diff(x.indptr)[:, None] + 2.0) * (1.0 + np.outer(norms, w_norm))
        hinge, blur = cost @ np.maximum(0.0, 1.0 - f), cost @ np.where(f < 1.0 + blur, blur, 0.0)
        alpha_sum = np.ascontiguousarray(a.T).sum(axis=1)  # in this order NumPy adds in pairs: equal terms add no bias
        sums = np.array([hinge, blur, alpha_sum, norms @ a, free.sum(axis=0), upper.sum(axis=0)])
    first = np.where(outside.any(axis=0), mine.start + outside.argmax(axis=0), costs.size)
    return features, x.T @ (y * a), sums, first


def _compact(x: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
    """Return the rows over the features that occur in them, in float64, and which those are."""
    occurs = np.zeros(x.shape[1], np.bool_)
    occurs[x.indices] = True
    features = np.flatnonzero(occurs)
    place = np.empty(x.shape[1], np.int32)
    place[features] = np.arange(features.size)
    values = x.data.astype(np.float64)
    return sp.csr_array((values, place[x.indices], x.indptr), shape=(x.shape[0], features.size)), features
