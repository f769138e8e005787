"""Arrow record batches to blocks: one numeric column per feature, or list columns ``indices`` and ``values``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from pipeline.data.block import LARGEST_FEATURES, Block, Origin, ReadRules, make_block
from pipeline.data.labels import RawLabels, label_text
from pipeline.data.sources.base import ReadOptions
from pipeline.errors import DataError

BATCH_CELLS = 1 << 20


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
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise DataError(f"column '{duplicates[0]}' stands twice in the header; rename one", path=path)
    if options.label_column not in names:
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise DataError(
            f"no column '{options.label_column}' for the labels; there are {shown}; pass --label-column NAME", path=path
        )
    weight = options.weight_column if options.weight_column in names else None
    if {"indices", "values"} <= set(names) and _is_list(schema.field("indices").type):
        return Layout(options.label_column, weight, None)
    features = tuple(name for name in names if name not in (options.label_column, weight))
    if not features:
        raise DataError("no feature columns; every column but label and weight is a feature", path=path)
    for name in features:
        kind = schema.field(name).type
        if not (_is_number(kind) or pa.types.is_boolean(kind)):
            raise DataError(f"column '{name}' is {kind}, not numeric; drop or encode it", path=path)
    return Layout(options.label_column, weight, features)


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
        if not _is_list(column.type) or not _is_number(column.type.value_type):
            raise DataError(f"column '{name}' is {column.type}; it must hold lists of numbers", path=origin.path)
    lengths, other = (pc.fill_null(pc.list_value_length(c), 0).to_numpy(zero_copy_only=False) for c in columns)
    unequal = np.flatnonzero(lengths != other)
    if unequal.size:
        row = int(unequal[0])
        raise origin.error(row, f"{lengths[row]} indices but {other[row]} values; they must be as many")
    indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    flat_indices, flat_values = (c.flatten() for c in columns)
    if flat_indices.null_count:
        row = _row_of(int(np.flatnonzero(flat_indices.is_null().to_numpy(zero_copy_only=False))[0]), indptr)
        raise origin.error(row, "an index is missing (null); correct the row")
    wide = flat_indices.to_numpy(zero_copy_only=False).astype(np.int64)
    wide -= rules.assumed_base
    outside = np.flatnonzero((wide < -(2**31)) | (wide >= LARGEST_FEATURES))
    if outside.size:
        entry = int(outside[0])
        found = wide[entry] + rules.assumed_base
        problem = f"index {found} is outside what 32 bits can number; renumber the features"
        raise origin.error(_row_of(entry, indptr), problem)
    values = flat_values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return indptr, wide.astype(np.int32), np.array(values, dtype=np.float64)


def _row_of(entry: int, indptr: np.ndarray) -> int:
    return int(np.searchsorted(indptr, entry, side="right")) - 1


def _numbers(column: pa.Array, name: str | None, origin: Origin) -> np.ndarray:
    if not (_is_number(column.type) or pa.types.is_boolean(column.type)):
        raise DataError(f"column '{name}' is {column.type}, not numeric; drop or encode it", path=origin.path)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise origin.error(row, f"column '{name}' has no number here; fill or drop the row")
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def labels_of(batch: pa.RecordBatch | pa.Table, layout: Layout, origin: Origin) -> RawLabels:
    """Return the labels of a batch."""
    column = _flat(batch.column(layout.label))
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise origin.error(row, "the label is missing; fill or drop the row")
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = [label_text(v) for v in encoded.dictionary.to_pylist()]
    distinct = sorted(set(texts))
    remap = np.array([distinct.index(text) for text in texts], dtype=np.int32)
    return RawLabels(remap[encoded.indices.to_numpy(zero_copy_only=False)] if texts else remap, tuple(distinct))


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
