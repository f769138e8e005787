"""Where the path of a run must start: C_min = 1/max_i z_i . s, s = sum c_j z_j, from the rows alone; for ``verify``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.verify import twofold
from pipeline.verify.recompute import without_empty_columns


@dataclass(frozen=True)
class TrueStart:
    """The largest z_i . s, and what plain float64 may have made of it: n rows added up, then a product."""

    largest: float
    doubt: float

    def problem(self, c_min: float | None) -> str:
        """Say what is wrong with a run's C_min (None: the rows sum to zero); empty if nothing is."""
        said = 0.0 if c_min is None else 1.0 / c_min
        if abs(said - self.largest) <= self.doubt:
            return ""
        return f"C_min is {1.0 / self.largest if self.largest > 0 else np.inf:.12g}, not {c_min} as run.json says"


def start_of_path(engine: Engine, data: Dataset, costs: np.ndarray, seen: Callable[[int], None]) -> TrueStart:
    """Find the start of the path, in two passes over all rows."""
    high, low = np.zeros((data.n_features, 1)), np.zeros((data.n_features, 1))
    reach = norm = length = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # values of 1e160: there is no C_min, which is a finding
        for shard, part in zip(data.shards, engine.stream(_shard_sum, data.shards, costs), strict=True):
            features, more_high, more_low, more_reach, largest, longest = part
            sums = high[features], low[features]
            twofold.add_to(*sums, more_high, more_low)
            high[features], low[features] = sums
            reach, norm, length = reach + more_reach, max(norm, largest), max(length, longest)
            seen(shard.n_rows)
        products = []
        for shard, found in zip(
            data.shards, engine.stream(_shard_largest, data.shards, costs, high + low), strict=True
        ):
            products.append(found)
            seen(shard.n_rows)
    doubt = 4 * twofold.UNIT * (data.n_rows + length + 8) * norm * reach
    return TrueStart(max(0.0, *products), doubt)


def _shard_sum(shard: Shard, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float, int]:
    """Return s over the features of a shard, in two parts, sum c_i |z_i|, and the largest norm and row length."""
    rows = shard.load()
    x, features = without_empty_columns(rows.csr())
    mine, y = costs[shard.first_row : shard.first_row + shard.n_rows], rows.labels.astype(np.float64)
    high, low, total = np.zeros((features.size, 1)), np.zeros((features.size, 1)), np.zeros((2, 1))
    twofold.row_sums((x.indptr, x.indices, x.data, y), mine, np.ones(1), mine[:, None].copy(), high, low, total)
    norms = twofold.row_norms(x.indptr, x.data)
    return (
        features,
        high,
        low,
        float(mine @ norms),
        float(norms.max(initial=0.0)),
        int(np.diff(x.indptr).max(initial=0)),
    )


def _shard_largest(shard: Shard, costs: np.ndarray, s: np.ndarray) -> float:
    """Return the largest z_i . s of the rows that were trained on."""
    rows = shard.load()
    x, features = without_empty_columns(rows.csr())
    found = [np.zeros((shard.n_rows, 1)) for _ in range(3)]
    matrix = x.indptr, x.indices, x.data, rows.labels.astype(np.float64)
    twofold.products(matrix, s[features], *found)
    used = costs[shard.first_row : shard.first_row + shard.n_rows] > 0.0
    return float((found[0] + found[1])[used].max(initial=0.0))
