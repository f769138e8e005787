"""Frames and arrays that scikit-learn's checks refuse in words of other libraries, or take without a word.

Estimators take numbers, as scikit-learn's own do. Where a frame has something else, the error names the column and what
can be done about it; what is wrong in other ways is said as scikit-learn says it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipeline.collections.kinds import is_frame
from pipeline.data.reading.block import Origin
from pipeline.data.torn import refuse_torn
from pipeline.errors import DataError

CURE = "encode it (OneHotEncoder in a Pipeline), drop it, or use svmsieve.fit_path, which encodes columns"
NUMBERS = tuple("biuf")  # kinds of types, of pandas' own that can be missing, too
MOMENTS = tuple("mM")  # dates and spans of time: scikit-learn takes them for numbers of whatever they count


@contextmanager
def explained(x: Any) -> Iterator[None]:
    """Refuse what scikit-learn does not look at; say of an error which column of a frame is its cause."""
    refuse_torn(x, "X")
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        row = int(np.argmax(np.ma.getmaskarray(x).reshape(len(x), -1).any(axis=1)))
        raise Origin("X", 0).error(row, "an entry is masked; fill it (X.filled(0)) or drop the row")
    if _kind(x) in MOMENTS:
        raise DataError(f"is of type {x.dtype}, not of numbers; make some of it, such as years", path="X")
    if hasattr(x, "iloc") and any(getattr(kind, "kind", "") in MOMENTS for kind in np.atleast_1d(x.dtypes)):
        raise DataError(_oddity(x), path="X")
    try:
        yield
    except Exception as error:
        problem = _oddity(x) if is_frame(x) else ""
        if problem:
            raise DataError(problem, path="X") from error
        raise


def _kind(values: Any) -> str:
    """Return NumPy's letter for the kind of some values' type; empty where it has none."""
    return getattr(getattr(values, "dtype", None), "kind", "")


def _oddity(frame: Any) -> str:
    """Say what is odd about the columns of a frame; empty if nothing is."""
    if type(frame).__name__ == "LazyFrame":
        return "a LazyFrame of polars has no rows yet; give X.collect()"
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None:
        return ""
    if not len(names):
        return "has no columns; give at least one feature"
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        return f"column {twice[0]!r} stands twice; rename one"
    for name in names:
        column = frame[name]
        if _kind(column) in NUMBERS:
            continue
        try:
            if _kind(column) in MOMENTS:
                raise TypeError
            np.asarray(column.to_numpy(), dtype=np.float64)
        except (TypeError, ValueError):
            kind = getattr(column, "dtype", getattr(column, "type", "of another type"))
            return f"column {name!r} is {kind}, not numbers; {CURE}"
    return ""
