"""Arrow record batches to blocks: one numeric column per feature, or list columns ``indices`` and ``values``."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from pipeline.data.reading.block import Block, Origin, ReadRules, make_block, refuse_missing, zero_based
from pipeline.data.reading.decimals import NUMBER
from pipeline.data.reading.labels import RawLabels, label_text
from pipeline.data.reading.layout import Layout, is_numeric, is_text, not_numeric
from pipeline.errors import DataError

_WHOLLY_A_NUMBER = f"^{NUMBER}$"


def block_of(batch: pa.RecordBatch | pa.Table, layout: Layout, origin: Origin, rules: ReadRules) -> Block:
    """Turn a batch into a block."""
    labels = labels_of(batch, layout, origin, rules)
    costs = _costs(batch, layout.weight, origin, rules) if layout.weight is not None else None
    if layout.encoding is not None:
        csr, rules = layout.encoding.csr(batch, origin), replace(rules, features=None, add_duplicates=True)
    elif layout.features is not None:
        csr = _dense(batch, layout.features, origin)
    else:
        csr = _lists(batch, origin, rules)
    groups = None if layout.group is None else _groups(batch, layout.group, origin)
    return replace(make_block(origin, labels, csr, rules, costs), groups=groups)


def _groups(batch: pa.RecordBatch | pa.Table, name: str, origin: Origin) -> np.ndarray:
    """Return a hash of the text of every row's group; 17, 17.0 and "17" are the same one, as labels are."""
    column = _flat(batch.column(name))
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (is_numeric(kind) or is_text(kind) or pa.types.is_boolean(kind)):
        raise DataError(f"column '{name}' is {kind}; groups are numbers or text: convert it", path=origin.path)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = [*map(label_text, encoded.dictionary.to_pylist()), ""]
    codes = codes_of(encoded, len(texts) - 1)
    missing = np.isin(codes, [k for k, text in enumerate(texts) if text in ("", "nan")])
    if missing.any():
        raise origin.error(int(np.argmax(missing)), f"column '{name}' has no group here; fill it or drop the row")
    return np.array([group_hash(text) for text in texts], np.uint64)[codes]


def group_hash(text: str) -> int:
    """Return 64 bits for a group: the same on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _costs(batch: pa.RecordBatch | pa.Table, name: str, origin: Origin, rules: ReadRules) -> np.ndarray:
    column = _flat(batch.column(name))
    if rules.unlabelled and is_text(column.type):  # from a CSV file
        column = pc.if_else(pc.match_substring_regex(column, _WHOLLY_A_NUMBER, ignore_case=True), column, "1")
    return _numbers(column.cast(pa.float64(), safe=False).fill_null(1) if rules.unlabelled else column, name, origin)


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
    if not (is_numeric(column.type) or pa.types.is_boolean(column.type)):
        raise DataError(not_numeric(name, column.type), path=origin.path)
    if column.null_count:
        raise origin.error(_first_null(column), f"column '{name}' has no number here; fill it or drop the row")
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def labels_of(batch: pa.RecordBatch | pa.Table, layout: Layout, origin: Origin, rules: ReadRules) -> RawLabels:
    """Return the labels of a batch; where a row may do without, a missing one is empty text."""
    if layout.label is None:
        return RawLabels.coded(np.zeros(batch.num_rows, np.int32), [""])
    column = _flat(batch.column(layout.label))
    try:
        column.validate(full=True)  # a damaged file may have codes that stand for nothing, or text that is none
    except pa.ArrowInvalid as error:
        problem = f"column '{layout.label}' is damaged ({error}); write the file again"
        raise DataError(problem, path=origin.path) from error
    if column.null_count and not rules.unlabelled:
        other = f"name another column than '{layout.label}' with --label-column"
        problem = f"the label is missing; fill it or drop the row, or {other}"
        raise origin.error(_first_null(column), problem)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = codes_of(encoded, len(encoded.dictionary))
    return refuse_missing(RawLabels.coded(codes, [*encoded.dictionary.to_pylist(), None]), origin, rules)


def codes_of(encoded: pa.DictionaryArray, missing: int) -> np.ndarray:
    """Return the codes of cells, ``missing`` where there is none, which the codes' own type may have no room for."""
    found: np.ndarray = encoded.indices.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)
    return found


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
