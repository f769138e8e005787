"""The largest weights of a linear model by name, and their paths over C. One model at a time is in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import Run, StepView
from pipeline.runs.feature_names import BIAS, feature_names

TOP, PATHS = 20, 8
MOST_ENTRIES = 200_000_000  # of all models that are read for paths: of more some are left out, evenly
LEAST_MODELS = 12


@dataclass(frozen=True)
class Weights:
    """The largest weights of the model at C, by size, and how many are not 0."""

    c: float
    names: list[str]
    index: np.ndarray
    values: np.ndarray
    nonzero: int


@dataclass(frozen=True)
class WeightPaths:
    """The weights of some features over C: a row a feature."""

    cs: np.ndarray
    names: list[str]
    values: np.ndarray


def name_of(about: DataRecord, j: int) -> str:
    """Return what feature j of a run is called."""
    if about.bias and j == about.features - 1:
        return BIAS
    return about.encoding.name(j) if about.encoding is not None else feature_names(about).of(j)


def largest_weights(step: StepView, top: int = TOP) -> Weights:
    """Return the largest weights of a step's model."""
    w, about = step.w, step.header.data
    found = np.flatnonzero(w)
    order = found[np.argsort(-np.abs(w[found]), kind="stable")[:top]]
    names = _names(about, order)
    return Weights(step.c, names, order, w[order], int(found.size))


def weight_paths(run: Run, weights: Weights, count: int = PATHS) -> WeightPaths:
    """Return how the largest weights of a model change along the path; wide models are not all read."""
    some = weights.index[:count]
    every = max(1, -(-len(run.steps) * run.header.data.features // MOST_ENTRIES))
    most = max(LEAST_MODELS, len(run.steps) // every)
    numbers = np.unique(np.linspace(0, len(run.steps) - 1, min(len(run.steps), most)).round().astype(int))
    steps = [run.steps[k] for k in numbers]
    values = np.stack([step.w[some] for step in steps], axis=1) if some.size else np.empty((0, len(steps)))
    return WeightPaths(np.array([step.c for step in steps]), weights.names[:count], values)


def _names(about: DataRecord, order: np.ndarray) -> list[str]:
    if about.encoding is not None:
        return [name_of(about, int(j)) for j in order]
    names = feature_names(about)
    return [names.of(int(j)) for j in order]


def moved_weights(ours: Any, theirs: Any, top: int = TOP) -> list[tuple[str, float, float]]:
    """Return the features whose weights in two models differ most: name, our weight, theirs; matched by name."""
    pair = [(step.w, step.header.data) for step in (ours, theirs)]
    tables = [_by_name(w, about, top) for w, about in pair]
    known = sorted({name for table in tables for name in table})
    rows = [(name, tables[0].get(name, 0.0), tables[1].get(name, 0.0)) for name in known]
    return sorted(rows, key=lambda row: -abs(row[1] - row[2]))[:top]


def _by_name(w: np.ndarray, about: DataRecord, top: int) -> dict[str, float]:
    """Return weights by name: all, or of a wide model the largest hundredfold."""
    order = np.argsort(-np.abs(w), kind="stable")[: 100 * top]
    return dict(zip(_names(about, order), w[order].tolist(), strict=True))
