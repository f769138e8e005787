"""The user's names for classes and features, as other programs want them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.events import Listener, Note
from pipeline.scoring.model import SIGNS, TrainedModel

_INTEGER = re.compile(r"[+-]?[0-9]+")


def integers_of(model: TrainedModel, program: str, listen: Listener) -> tuple[int, int]:
    """Return the labels of the two classes as the C integers that a program wants; a line says if they are others."""
    names = model.names
    if not all(map(_is_small, names)):
        listen(Note(f"{program}'s labels are integers: {names[1]} is written as 1 and {names[0]} as -1"))
        names = SIGNS
    return int(names[0]), int(names[1])


def codes_of(names: Sequence[str], program: str, listen: Listener) -> list[int]:
    """Return the labels of several classes as the C integers that a program wants; a line says if they are others."""
    if all(map(_is_small, names)):
        return [int(name) for name in names]
    listen(Note(f"{program}'s labels are integers: {names[0]} is written as 0, {names[1]} as 1, and so on"))
    return list(range(len(names)))


def _is_small(name: str) -> bool:
    return _INTEGER.fullmatch(name) is not None and abs(int(name)) < 2**31


def columns_as(model: TrainedModel, key: str) -> dict[str, Any]:
    """Return the names of the features under a key, if they have names."""
    columns = model.feature_names.columns
    return {} if columns is None else {key: np.array(columns)}
