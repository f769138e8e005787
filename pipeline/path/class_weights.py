"""Weights of classes, as people ask for them, for the data at hand: by label, or balanced.

Balanced, the rows of class k that are trained on, n_k of n, count n/(K n_k) each: every class as much as any other. In
problems of one class against the rest a weight belongs to the rows of its class, on whichever side they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pipeline.data.dataset import Dataset
from pipeline.data.reading.labels import label_text
from pipeline.data.reading.layout import listed
from pipeline.errors import SpecError
from pipeline.spec import PathSpec


def weights_of_classes(data: Dataset, spec: PathSpec, trained: np.ndarray) -> tuple[float, ...] | None:
    """Return a weight for each class, given how many rows of each are trained on; None: all are 1."""
    asked, count = spec.class_weight, len(data.classes)
    if asked is None:
        return None
    if asked == "balanced":
        return tuple((trained.sum() / (count * trained)).tolist())
    given = _by_label(spec)
    if given is None:
        problem = f"class_weight {asked} is that of a negative and a positive class, and there are {count:,}"
        raise SpecError(f"{problem}; write LABEL=WEIGHT,LABEL=WEIGHT or balanced")
    names = [label_text(name) for name in data.classes]
    _refuse_unknown(given, names, data)
    return tuple(given.get(name, 1.0) for name in names)


def settled_for_two(data: Dataset, spec: PathSpec) -> PathSpec:
    """Return the settings with weights by label as those of the two classes that the labels are of."""
    given = _by_label(spec)
    if given is None:
        return spec
    sides = data.labels.negative, data.labels.positive
    _refuse_unknown(given, [label_text(label) for side in sides for label in side], data)
    pair: list[float] = []
    for side in sides:
        found = {given.get(label_text(label), 1.0) for label in side}
        if len(found) > 1:
            several = f"the labels {listed(list(side))} are one class"
            raise SpecError(f"{data.path}: {several}, which has one weight; give class_weight as NEG,POS")
        pair += found
    return replace(spec, class_weight=(pair[0], pair[1]))


def _by_label(spec: PathSpec) -> dict[str, float] | None:
    """Return weights by label, spelled as labels are; None if that is not how they are given."""
    found = dict[str, float]()
    for each in spec.class_weight or ():
        if not isinstance(each, tuple):
            return None
        found[label_text(each[0])] = each[1]
    return found or None


def _refuse_unknown(given: Mapping[str, float], names: list[str], data: Dataset) -> None:
    unknown = [label for label in given if label not in names]
    if unknown:
        raise SpecError(f"{data.path}: has no class {unknown[0]} to give a weight; there are {listed(names)}")
