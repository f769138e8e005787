"""The user's names for classes and features, as other programs want them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.events import Listener, Note
from pipeline.scoring.model import SIGNS, TrainedModel

MOST_BYTES = 256 << 20  # of names in an export
_INTEGER = re.compile(r"[+-]?[0-9]+")


def integers_of(model: TrainedModel, program: str, listen: Listener) -> tuple[int, int]:
    """Return the labels of the two classes as the C integers that a program wants; a line says if they are others."""
    names = model.names
    if not all(map(_is_small, names)):
        listen(Note(f"{program}'s labels are integers: {names[1]} is written as 1 and {names[0]} as -1"))
        names = SIGNS
    return int(names[0]), int(names[1])


def label_integers(names: Sequence[str], program: str, listen: Listener) -> list[int]:
    """Return the labels of several classes as the C integers that a program wants; a line says if they are others."""
    if all(map(_is_small, names)):
        return [int(name) for name in names]
    listen(Note(f"{program}'s labels are integers: {names[0]} is written as 0, {names[1]} as 1, and so on"))
    return list(range(len(names)))


def _is_small(name: str) -> bool:
    return _INTEGER.fullmatch(name) is not None and abs(int(name)) < 2**31


def columns_as(model: TrainedModel, key: str, listen: Listener) -> dict[str, Any]:
    """Return the names of the features under a key, if they have names that fit; a line says if they do not."""
    names = model.feature_names.every()
    if names is None:
        return {}
    size = 4 * len(names) * max(map(len, names), default=0)  # NumPy stores every text as long as the longest
    if size > MOST_BYTES:
        listen(Note(f"the names of {len(names):,} features would take {size:,} bytes; they are not written"))
        return {}
    return {key: np.array(names)}
