"""What kind of thing the user hands over, told by the names of its classes: nothing is imported to find out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.errors import DataError

PATH, DATASET, NUMPY, SCIPY = "path", "dataset", "numpy", "scipy"
PANDAS, POLARS, ARROW = "pandas", "polars", "arrow"
DASK_ARRAY, DASK_FRAME, DASK_BAG = "Dask array", "Dask frame", "Dask bag"
FRAMES = (PANDAS, POLARS, ARROW)
DASK = (DASK_ARRAY, DASK_FRAME, DASK_BAG)

_PACKAGES = (
    ("pipeline.data.dataset", DATASET),
    ("numpy", NUMPY),
    ("scipy.sparse", SCIPY),
    ("pandas", PANDAS),
    ("polars", POLARS),
    ("pyarrow", ARROW),
    ("dask.array", DASK_ARRAY),
    ("dask.dataframe", DASK_FRAME),
    ("dask.bag", DASK_BAG),
)
_ACCEPTED = "a path, a Dataset, NumPy, SciPy, pandas, polars, pyarrow, or a Dask array, frame or bag"


def kind_of(data: Any, what: str = "the data") -> str:
    """Return the kind of some data, or say in one line what is accepted."""
    if isinstance(data, str | Path):
        return PATH
    if isinstance(data, list | tuple):
        return NUMPY
    kind = _known(data)
    if kind is not None:
        return kind
    if type(data).__module__.partition(".")[0] == "dask":
        raise DataError(f"{what}: a {type(data).__name__} of Dask has no partitions of rows; make an array or a frame")
    raise DataError(f"{what}: {type(data).__name__} is nothing that can be read; give {_ACCEPTED}")


def is_dask(data: Any) -> bool:
    """Whether something is a Dask collection, which is never brought into memory."""
    return _known(data) in DASK


def is_frame(data: Any) -> bool:
    """Whether something is a table with columns: they may be anything."""
    return _known(data) in (*FRAMES, DASK_FRAME)


def _known(data: Any) -> str | None:
    for base in type(data).__mro__:
        for package, kind in _PACKAGES:
            if base.__module__ == package or base.__module__.startswith(f"{package}."):
                return kind
    return None
