"""Views of text (``string_view``, which polars hands over) as text: much of Arrow cannot work on views yet."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

C = TypeVar("C", pa.Array, pa.ChunkedArray)
T = TypeVar("T", pa.RecordBatch, pa.Table)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same cells without views."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain_type(kind.value_type), kind.ordered)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the same table without views."""
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema], schema.metadata)


def plain_column(column: C) -> C:
    """Return the same cells without views."""
    kind = plain_type(column.type)
    return column if kind == column.type else column.cast(kind)


def plain_table(table: T) -> T:
    """Return the same rows without views."""
    schema = plain_schema(table.schema)
    if schema == table.schema:
        return table
    return type(table).from_arrays([plain_column(column) for column in table.columns], schema=schema)
