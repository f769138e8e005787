"""The paths of the largest weights over C, and the weights in which two models differ. One model at a time is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.runs.run import StepView
from pipeline.runs.weights import TopWeights, top_weights

PATHS = 8  # as many as colours and lines tell apart
MOST_ENTRIES = 200_000_000  # of all models that are read for paths: of more some are left out, evenly
LEAST_MODELS = 12  # however wide they are: with fewer a line has corners, and no course
MANY = 2000  # weights of either model that are compared


@dataclass(frozen=True)
class WeightPaths:
    """The weights of some features over C: a row a feature."""

    cs: np.ndarray
    names: list[str]
    values: np.ndarray


def weight_paths(steps: Sequence[StepView], found: TopWeights, own: StepView, count: int = PATHS) -> WeightPaths:
    """Return how the largest weights of ``own`` change along some models; of wide models some are left out."""
    some = found.largest[:count]
    at = np.array([each.feature for each in some], np.int64)
    every = max(1, -(-len(steps) * own.data.features // MOST_ENTRIES))
    most = min(len(steps), max(LEAST_MODELS, len(steps) // every))
    numbers = np.unique(np.linspace(0, len(steps) - 1, most).round().astype(int))
    values = np.stack([steps[k].w[at] for k in numbers], axis=1)
    # a bucket's weight is shown with the sign of its most frequent name
    signs = np.array([1.0 if each.weight == w else -1.0 for each, w in zip(some, own.w[at], strict=True)])
    cs = np.array([steps[k].c for k in numbers])
    return WeightPaths(cs, [each.name for each in some], values * signs[:, None])


def moved_weights(one: StepView, two: StepView, top: int = 20) -> list[tuple[str, float, float]]:
    """Return the features whose weights in two models differ most, by name: the weight in either, 0 if it has none."""
    tables = [{each.name: each.weight for each in top_weights(step, MANY).largest} for step in (one, two)]
    names = dict.fromkeys([*tables[0], *tables[1]])
    rows = [(name, tables[0].get(name, 0.0), tables[1].get(name, 0.0)) for name in names]
    return sorted(rows, key=lambda row: -abs(row[1] - row[2]))[:top]
