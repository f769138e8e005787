"""Arrow record batches to blocks: one numeric column per feature, or list columns ``indices`` and ``values``."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from pipeline.data.block import Block, Origin, ReadRules, make_block, refuse_missing, zero_based
from pipeline.data.labels import RawLabels
from pipeline.data.sources.base import ReadOptions
from pipeline.errors import DataError

BATCH_CELLS = 1 << 20
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class Layout:
    """Which columns mean what. ``features`` is None where rows are list columns ``indices`` and ``values``."""

    label: str
    weight: str | None
    features: tuple[str, ...] | None

    @property
    def names(self) -> list[str]:
        """Every column that has to be read."""
        features = list(self.features) if self.features is not None else ["indices", "values"]
        return [self.label, *([self.weight] if self.weight else []), *features]

    def batch_rows(self) -> int:
        """Return how many rows to take at a time so that a batch stays small."""
        return max(1, BATCH_CELLS // len(self.features)) if self.features is not None else 1 << 14


def layout_of(schema: pa.Schema, path: str, options: ReadOptions) -> Layout:
    """Find label, weight and features in a schema, or say which column is missing or not a number."""
    names = schema.names
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"column '{twice[0]}' stands twice in the header; rename one", path=path)
    if options.label_column not in names:
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise DataError(
            f"no column '{options.label_column}' for the labels; there are {shown}; pass --label-column NAME", path=path
        )
    _check_label(schema.field(options.label_column).type, path, options)
    weight = options.weight_column if options.weight_column in names else None
    if weight is None and options.weight_column != ReadOptions.weight_column:
        raise DataError(f"no column '{options.weight_column}'; correct --weight-column or leave it out", path=path)
    if any(name in names and _is_list(schema.field(name).type) for name in ("indices", "values")):
        _check_lists(schema, path)
        return Layout(options.label_column, weight, None)
    features = tuple(
        name for name in names if name not in (options.label_column, weight) and not _PANDAS_INDEX.fullmatch(name)
    )
    if "" in features:
        place = names.index("") + 1
        raise DataError(f"column {place} has no name; name it, or drop it if it numbers the rows", path=path)
    if not features:
        raise DataError("no feature columns; every column but label and weight is a feature", path=path)
    for name in features:
        kind = schema.field(name).type
        if not (_is_number(kind) or pa.types.is_boolean(kind)):
            raise DataError(f"column '{name}' is {kind}, not numeric; drop or encode it", path=path)
    return Layout(options.label_column, weight, features)


def _check_label(kind: pa.DataType, path: str, options: ReadOptions) -> None:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (_is_number(kind) or _is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        problem = f"column '{options.label_column}' is {kind}; labels must be numbers or text"
        raise DataError(f"{problem}: convert it or pass --label-column NAME", path=path)


def _check_lists(schema: pa.Schema, path: str) -> None:
    for name, allowed, what in (("indices", pa.types.is_integer, "whole numbers"), ("values", _is_number, "numbers")):
        if name not in schema.names:
            raise DataError(f"no column '{name}'; rows as lists need the columns indices and values", path=path)
        kind = schema.field(name).type
        if not (_is_list(kind) and allowed(kind.value_type)):
            raise DataError(f"column '{name}' is {kind}; it must hold lists of {what}: convert it", path=path)


def block_of(batch: pa.RecordBatch | pa.Table, layout: Layout, origin: Origin, rules: ReadRules) -> Block:
    """Turn a batch into a block."""
    labels = labels_of(batch, layout, origin)
    costs = _numbers(_flat(batch.column(layout.weight)), layout.weight, origin) if layout.weight else None
    csr = _dense(batch, layout.features, origin) if layout.features is not None else _lists(batch, origin, rules)
    return make_block(origin, labels, csr, rules, costs)


def _dense(
    batch: pa.RecordBatch | pa.Table, features: tuple[str, ...], origin: Origin
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dense = np.empty((batch.num_rows, len(features)))
    for j, name in enumerate(features):
        dense[:, j] = _numbers(_flat(batch.column(name)), name, origin)
    csr = sp.csr_array(dense)
    return csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data


def _lists(
    batch: pa.RecordBatch | pa.Table, origin: Origin, rules: ReadRules
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    columns = [_flat(batch.column(name)) for name in ("indices", "values")]
    for name, column in zip(("indices", "values"), columns, strict=True):
        if column.null_count:
            problem = f"column '{name}' has no list here; a row without features has an empty one: fill it"
            raise origin.error(_first_null(column), problem)
    lengths, other = (pc.list_value_length(c).to_numpy(zero_copy_only=False) for c in columns)
    unequal = np.flatnonzero(lengths != other)
    if unequal.size:
        row = int(unequal[0])
        raise origin.error(row, f"{lengths[row]} indices but {other[row]} values; they must be as many")
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    flat_indices, flat_values = (c.flatten() for c in columns)
    if flat_indices.null_count:
        row = int(np.searchsorted(indptr, _first_null(flat_indices), side="right")) - 1
        raise origin.error(row, "an index is missing (null); correct the row")
    indices = zero_based(flat_indices.to_numpy(zero_copy_only=False), indptr, rules, origin)
    values = flat_values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return indptr, indices, np.array(values, dtype=np.float64)


def _first_null(column: pa.Array) -> int:
    return int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])


def _numbers(column: pa.Array, name: str | None, origin: Origin) -> np.ndarray:
    if not (_is_number(column.type) or pa.types.is_boolean(column.type)):
        raise DataError(f"column '{name}' is {column.type}, not numeric; drop or encode it", path=origin.path)
    if column.null_count:
        raise origin.error(_first_null(column), f"column '{name}' has no number here; fill it or drop the row")
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def labels_of(batch: pa.RecordBatch | pa.Table, layout: Layout, origin: Origin) -> RawLabels:
    """Return the labels of a batch."""
    column = _flat(batch.column(layout.label))
    if column.null_count:
        raise origin.error(_first_null(column), "the label is missing; fill it or drop the row")
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return refuse_missing(RawLabels.coded(codes, encoded.dictionary.to_pylist()), origin)


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _is_text(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )
