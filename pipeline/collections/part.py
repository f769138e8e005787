"""A part: consecutive rows in memory as somebody has them, with their labels and weights; and what reads one.

A partition of a Dask collection is a part on the worker that has it; an array or a frame is the only part there is. A
reader is small, goes to the workers, and turns a part into checked blocks, a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pipeline.data.reading.block import Block, Origin
from pipeline.data.reading.columns import codes_of
from pipeline.data.reading.labels import RawLabels
from pipeline.data.reading.layout import is_numeric, is_text
from pipeline.data.reading.plain import plain_column
from pipeline.data.tables.encoding import Encoding
from pipeline.dataclass import dataclass
from pipeline.errors import DataError


@dataclass(frozen=True)
class Part:
    """Rows x with labels y and weights; without ``y`` the labels are in x.

    ``where`` is what an error calls it; its rows count from 0, as arrays and frames do.
    """

    x: Any
    where: str
    y: Any = None
    weight: Any = None


class Reader(Protocol):
    """Turns parts into blocks.

    ``columns`` are the names of the features, if they have any; ``encoding`` is what makes features of a table.
    """

    @property
    def n_features(self) -> int: ...  # noqa: D102
    @property
    def columns(self) -> tuple[str, ...] | None: ...  # noqa: D102
    @property
    def encoding(self) -> Encoding | None: ...  # noqa: D102
    def blocks(self, part: Part) -> Iterator[Block]:
        """Yield the rows of a part in order."""
        ...


def arrow_of(values: Any, what: str, where: str) -> pa.Array:
    """Return labels or weights, of whatever kind they are, as an Arrow array."""
    if isinstance(values, pa.ChunkedArray):
        return plain_column(values).combine_chunks()
    if isinstance(values, pa.Array):
        return plain_column(values)
    if isinstance(values, pa.Table) or getattr(values, "ndim", 1) != 1:
        values = _column(values, what, where)
    if hasattr(values, "to_arrow"):  # a Series of polars
        return plain_column(values.to_arrow())
    if isinstance(values, np.ma.MaskedArray):
        return pa.array(values.data, mask=np.ma.getmaskarray(values))
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return pa.array(np.asarray(values, np.float64))
    if isinstance(values, np.ndarray) and not values.dtype.isnative:  # Arrow does not know these
        values = values.astype(values.dtype.newbyteorder("="))
    try:
        made = pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        problem = f"{what} cannot be read ({said}); make them all numbers or all text"
        raise DataError(problem, path=where) from error
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def _column(values: Any, what: str, where: str) -> Any:
    """Return the only column of something that has columns."""
    shape: tuple[int, ...] = getattr(values, "shape", ())
    if len(shape) != 2 or shape[1] != 1:
        raise DataError(f"{what} have the shape {shape}; give one value a row", path=where)
    if isinstance(values, pa.Table):
        return values.column(0).combine_chunks()
    return values.iloc[:, 0] if hasattr(values, "iloc") else np.asarray(values)[:, 0]


def labels_of_rows(y: Any, n_rows: int, where: str) -> RawLabels:
    """Return the labels of so many rows; where one is missing, its text is empty."""
    column = _as_many(arrow_of(y, "the labels", where), "the labels", n_rows, where)
    expect_labels(column.type, where)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return RawLabels.coded(codes_of(encoded, len(encoded.dictionary)), [*encoded.dictionary.to_pylist(), None])


def expect_labels(kind: pa.DataType, where: str) -> None:
    """Raise DataError for a type that no label has."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (is_numeric(kind) or is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise DataError(f"the labels are {kind}; labels must be numbers or text: convert them", path=where)


def costs_of_rows(weight: Any, n_rows: int, where: str) -> np.ndarray | None:
    """Return the weights of so many rows as numbers; None: there are none."""
    if weight is None:
        return None
    column = _as_many(arrow_of(weight, "the weights", where), "the weights", n_rows, where)
    if not (is_numeric(column.type) or pa.types.is_boolean(column.type)):
        raise DataError(f"the weights are {column.type}, not numbers; convert them", path=where)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise Origin(where, 0).error(row, "the weight is missing; fill it or drop the row")
    return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _as_many(column: pa.Array, what: str, n_rows: int, where: str) -> pa.Array:
    if len(column) != n_rows:
        raise DataError(f"{n_rows:,} rows, but {what} are {len(column):,}; give one a row", path=where)
    return column
