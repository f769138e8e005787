"""Hive partitions: the columns that stand in the folder names of a Parquet file, ``year=2024/month=1/part.parquet``.

Whoever writes such a table leaves those columns out of the files. Here they come back, after the file's own columns:
numbers where the folder's value is one, else text, which is refused as any other text column is; labels are always
text, as in a CSV file, and keep every digit. A file that has a column of that name itself keeps its own.

Such folders stand right above the file, one in the other. What stands further up (``run=3/table/part.parquet``) is
where the table lies, not what is in it; and where the user stands when he names the file makes no difference.
"""

from __future__ import annotations

import math
import os
import re
from urllib.parse import unquote

import pyarrow as pa

from pipeline.data.reading.decimals import NUMBER
from pipeline.data.stores.located import is_url
from pipeline.dataclass import dataclass

_FOLDER = re.compile(r"([^=/\\]+)=([^/\\]*)")
_NUMBER = re.compile(NUMBER, re.IGNORECASE)
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # what Hive, Spark and Dask write for a null


@dataclass(frozen=True)
class Partitions:
    """The columns that a file's folders name, each with the one value that all its rows have."""

    values: tuple[tuple[str, float | str | None], ...] = ()

    @property
    def names(self) -> set[str]:
        """The names of the columns."""
        return {name for name, _ in self.values}

    def schema(self, own: pa.Schema) -> pa.Schema:
        """Return a file's schema with these columns after its own."""
        for name, value in self.values:
            own = own.append(pa.field(name, _kind(value)))
        return own

    def fill(self, batch: pa.RecordBatch, wanted: list[str]) -> pa.RecordBatch:
        """Return a batch with those of these columns that are wanted."""
        for name, value in self.values:
            if name in wanted:
                batch = batch.append_column(name, pa.repeat(pa.scalar(value, _kind(value)), batch.num_rows))
        return batch


def partitions_of(path: str, own: list[str], label: str) -> Partitions:
    """Return the columns in the names of the folders right above a file, but for those that the file has itself."""
    inner = path.partition("::")[0].partition("://")[2] if is_url(path) else os.path.abspath(path)  # noqa: PTH100
    found: dict[str, float | str | None] = {}
    for folder in reversed(re.split(r"[/\\]", inner)[:-1]):
        match = _FOLDER.fullmatch(folder)
        if match is None:
            break
        name, text = map(unquote, match.groups())
        if name not in own:
            found.setdefault(name, _value(text, name == label))
    return Partitions(tuple(reversed(found.items())))


def _value(text: str, is_label: bool) -> float | str | None:
    if text in ("", _NOTHING):
        return None
    number = float(text) if not is_label and _NUMBER.fullmatch(text) else math.nan
    return number if math.isfinite(number) else text


def _kind(value: float | str | None) -> pa.DataType:
    return pa.string() if isinstance(value, str) else pa.float64()
