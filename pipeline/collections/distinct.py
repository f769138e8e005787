"""The distinct labels of a Dask collection, as their own type has them: what predictions are to be called.

And which of its rows are there at all, by their weights.

A data set knows labels by their text, in one spelling. Of numbers and booleans the type says the rest. Text is looked
at, which computes the labels, and only these, once more: "01" is to come back as "01", and where two texts are one
label to a data set ("1" and "1.0"), that is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dask
import numpy as np

from pipeline.collections.dask_arrays import aligned
from pipeline.collections.kinds import DASK
from pipeline.collections.kinds import kind_of as kind
from pipeline.collections.part import arrow_of, costs_of_rows
from pipeline.data.reading.labels import label_text
from pipeline.engine.delayed import computed
from pipeline.engine.engine import Engine
from pipeline.errors import DataError


def typed_labels(texts: Sequence[str], y: Any, engine: Engine) -> np.ndarray:
    """Return the labels that a data set has as texts, in the same order, as ``y`` has them."""
    dtype = np.asarray(y).dtype if kind(y, "y") not in DASK else getattr(y, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        numbers = [float(text) if dtype.kind == "f" else int(text) for text in texts]
        return np.array(numbers).astype(dtype)
    own = _spelled(y, engine)
    return np.array([own[text] for text in texts])


def _spelled(y: Any, engine: Engine) -> dict[str, Any]:
    """Return every label of y by the text that a data set has for it."""
    task = dask.delayed(_distinct, pure=False)
    parts = aligned(y, (math.nan,), "y") if kind(y, "y") in DASK else (y,)
    assert parts is not None
    found: dict[str, Any] = {}
    for some in computed([task(part) for part in parts], engine.backend):
        for value in some:
            text = label_text(value)
            if found.setdefault(text, value) != value:
                problem = f"labels {found[text]!r} and {value!r} are the same class to a data set"
                raise DataError(f"{problem}; give each class one spelling", path="y")
    return found


def rows_with_weight(weight: Any, engine: Engine) -> np.ndarray | None:
    """Return the numbers of the rows whose weight is not 0; None where that is all of them."""
    task = dask.delayed(_is_there, pure=False)
    parts = aligned(weight, (math.nan,), "sample_weight") if kind(weight, "sample_weight") in DASK else (weight,)
    assert parts is not None
    there = np.concatenate(computed([task(part) for part in parts], engine.backend))
    return None if there.all() else np.flatnonzero(there)


def _is_there(part: Any) -> np.ndarray:
    costs = costs_of_rows(part, len(part), "sample_weight")
    assert costs is not None
    return costs != 0


def _distinct(part: Any) -> list[Any]:
    return [value for value in arrow_of(part, "the labels", "y").unique().to_pylist() if value is not None]
