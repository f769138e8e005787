"""Reading options where nothing is read: a shard directory was read when it was made, and keeps what it has.

An option that says what the shards have is true and passes; one that says something else, or something that shards no
longer know (the format of their files, the name of a column), is refused: to ignore it would be to do something else
than the user asked for.
"""

from __future__ import annotations

from collections.abc import Collection

from pipeline.data.dataset import Dataset
from pipeline.data.ingest.ingest import IngestSpec
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.labels import label_text
from pipeline.data.tables.asked import AUTO
from pipeline.errors import DataError

KEPT = ("bias", "columns", "positive", "features", "index_base", "group")
FORGOTTEN = ("format", "duplicates", "label_column", "weight_column", "ignore", "max_line")


def stated(spec: IngestSpec) -> set[str]:
    """Return the reading options in which a spec is not the default."""
    now, before = _values(spec), _values(IngestSpec())
    usual = spec.reading.table is not None and spec.reading.table.source == AUTO
    return {name for name in now if now[name] != before[name] and not (name == "columns" and usual)}


def refuse_reading(data: Dataset, spec: IngestSpec, given: Collection[str]) -> None:
    """Raise DataError for the first of the ``given`` options that cannot apply to shards, saying what these have."""
    asked = _values(spec)
    for name in (*KEPT, *FORGOTTEN):
        if name not in given:
            continue
        fact, agrees = _kept(data, name, asked[name]) if name in KEPT else ("", False)
        if not agrees:
            option = f"--{name.replace('_', '-')}"
            remedy = "leave it out, or ingest the files again with it" if name in KEPT else "leave it out"
            problem = f"is a shard directory{fact}; {option} applies when files are read"
            raise DataError(f"{problem}: {remedy}", path=data.path)


def _kept(data: Dataset, name: str, asked: object) -> tuple[str, bool]:
    """Return what the shards have, in words, and whether that is what is asked."""
    if name == "bias":
        return f" with bias {data.bias:g}", asked == data.bias
    if name == "columns":
        learnt = None if data.encoding is None else data.encoding.digest
        return " whose columns were encoded" if learnt else " of numbers as they were", asked == learnt
    if name == "positive" and data.classes:
        return f" with {len(data.classes):,} classes", False
    if name == "positive":
        positive = data.labels.positive
        return f" with the positive class {', '.join(positive)}", tuple(map(label_text, positive)) == (asked,)
    if name == "features":
        return f" with {data.own_features:,} features", asked == data.own_features
    if name == "group":
        return f" with groups from column '{data.group}'" if data.group else " without groups", asked == data.group
    if data.index_base is None:
        return " that was not made from svmlight text", asked is None
    return f" whose indices counted from {data.index_base}", asked in (None, data.index_base)


def _values(spec: IngestSpec) -> dict[str, object]:
    reading = spec.options
    return {
        "bias": spec.bias,
        "positive": None if spec.positive is None else label_text(spec.positive),
        "features": reading.rules.features,
        "index_base": reading.rules.base,
        "format": reading.format,
        "columns": _columns(reading),
        "duplicates": reading.rules.add_duplicates,
        "label_column": reading.label_column,
        "weight_column": reading.weight_column,
        "group": reading.group_column,
        "ignore": reading.ignore,
        "max_line": reading.max_line,
    }


def _columns(reading: ReadOptions) -> object:
    """Return what is asked of the columns of tables: an encoding, nothing, or to find out what is in them."""
    return reading.table if reading.encoding is None else reading.encoding.digest
