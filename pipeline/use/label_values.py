"""The classes of a run as the user's data have them. There is one rule for all outputs: numbers stay numbers.

    every class is called by a whole number that fits into 64 bits     int64
    every class by a number below 2^53 that float64 has exactly        float64
    else                                                               text

A class that stands for several labels is called -1 or +1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipeline.data.reading.labels import label_text
from pipeline.use.tables import numbers, texts


def label_array(names: Sequence[str]) -> np.ndarray:
    """Return the names of classes as an array of whole numbers, of numbers, or of text."""
    spelt = [label_text(name) for name in names]
    if all(map(_is_whole, spelt)):
        return np.array([int(name) for name in spelt], np.int64)
    if all(map(_is_float, spelt)):
        return np.array([float(name) for name in spelt])
    return np.array(names)


def label_values(names: Sequence[str]) -> pa.Array:
    """Return the same for Arrow."""
    found = label_array(names)
    return texts(names) if found.dtype.kind == "U" else numbers(found)


def _is_whole(name: str) -> bool:
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and -(2**63) <= int(name) < 2**63


def _is_float(name: str) -> bool:
    try:
        number = float(name)
    except ValueError:
        return False
    return abs(number) < 2**53 and label_text(number) == name
