"""The ids of rows in their shard: a column a name, as text, in one column of structs that no pass looks at.

Numbers, dates and the like become the text that Arrow makes of them, so that files whose columns have other types can
be appended, and an id is the same whatever file it came from. A row may have none (null).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pipeline.errors import DataError, DatasetError

IDS = "ids"


def as_text(table: pa.Table, path: str) -> pa.StructArray:
    """Return columns of ids as they are kept, or the error that one cannot be text."""
    columns = []
    for name in table.column_names:
        column = table.column(name)
        try:
            flat = pa.concat_arrays(column.cast(pa.string()).chunks or [pa.array([], pa.string())])
        except pa.ArrowException as error:
            said = str(error).partition("\n")[0]
            raise DataError(
                f"column '{name}' is no id ({column.type}: {said}); convert it to text", path=path
            ) from error
        columns.append(flat)
    return pa.StructArray.from_arrays(columns, names=table.column_names)


def has_form(kind: pa.DataType) -> bool:
    """Tell the type of a column of ids."""
    return pa.types.is_struct(kind) and all(field.type == pa.string() for field in kind)


def joined_ids(parts: Sequence[pa.StructArray | None]) -> pa.StructArray | None:
    """Return the ids of rows one after the other: all of them have the same, or none has."""
    known = [ids for ids in parts if ids is not None]
    if len(known) not in (0, len(parts)) or any(ids.type != known[0].type for ids in known):
        raise DatasetError("some of its shards have other ids than others; ingest the data again")
    return pa.concat_arrays(known) if known else None
