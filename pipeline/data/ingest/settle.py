"""What an ingest is to do, once it is known what is asked and what is there: before anything is read or written.

A data set that is there settles how files are added to it: index base, features, bias, groups, ids and labels.
Who names a column expects that it is read: where no file can have it, that is refused.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING

from pipeline.data.reading.base import ReadOptions, Source
from pipeline.data.reading.formats import FORMATS
from pipeline.data.reading.labels import LabelMap, label_text
from pipeline.data.reading.layout import listed, refuse_indices, refuse_unknown
from pipeline.data.reading.tidy import LARGEST_NORM
from pipeline.data.shards.manifest import Manifest
from pipeline.data.stores.located import is_url
from pipeline.errors import DataError
from pipeline.events import Listener, Note
from pipeline.redact import last_name

if TYPE_CHECKING:
    from pipeline.data.ingest.ingest import IngestSpec
    from pipeline.data.reading.ids import IdColumns

MANY_CLASSES = 20  # where most rows are a class of their own


def ids_of(sources: Sequence[Source], spec: IngestSpec) -> IdColumns | None:
    """Return the columns of ids, to be read beside the rows: those asked for, or those of the file of columns."""
    table = spec.reading.table
    names = spec.ids or (() if table is None else table.ids)
    if not names:
        return None
    from pipeline.data.reading.ids import IdColumns  # noqa: PLC0415 - slow to import: Arrow's readers

    return IdColumns(sources, names, sources[0].path)


def refuse_twice(sources: Sequence[Source]) -> None:
    """Refuse files that are named more than once, by themselves, a pattern or a link: their rows would count twice."""
    seen = set[object]()
    for source in sources:
        if source.format not in FORMATS:  # rows that are in memory
            continue
        file = source.path if is_url(source.path) else os.stat(source.path)[1:3]  # noqa: PTH116 - inode and device
        if file in seen:
            cure = "name it once (rows that are to count twice have a weight of 2)"
            raise DataError(f"the file is named twice, by itself, a pattern or a link; {cure}", path=source.path)
        seen.add(file)


def say_known(sources: Sequence[Source], old: Manifest, listen: Listener) -> None:
    """Say of files to be appended that one of their name and size was added before: it may be the same."""
    known = {(source.name, source.bytes) for source in old.sources}
    for source in sources:
        if source.format in FORMATS and (last_name(source.path), source.size) in known:
            problem = "a file of this name and size is in the data set already"
            listen(Note(f"{source.path}: {problem}; if it is the same, its rows count twice now"))


def say_odd_labels(labels: LabelMap, rows: int, where: str, listen: Listener) -> None:
    """Say of labels that are one but for their case that they are not one here, and of very many that they may be none.

    These are classes that nobody meant; a run of them takes long and says little.
    """
    alike = dict[str, list[str]]()
    for label in labels.classes or (*labels.negative, *labels.positive):
        alike.setdefault(label.casefold(), []).append(label)
    rest = set(labels.negative) if labels.one_against_rest else set()  # these are one class
    twins = next((names for names in alike.values() if len(names) > 1 and not rest.issuperset(names)), None)
    if twins:
        problem = f"labels {listed(twins)} differ only in case, and are classes of their own"
        listen(Note(f"{where}: {problem}; write them alike if they are one"))
    count = len(labels.classes)
    if count > MANY_CLASSES and 2 * count > rows:
        listen(Note(f"{where}: {count:,} classes in {rows:,} rows; is the label a measurement, or an id?"))


def refuse_columns(sources: Sequence[Source], options: ReadOptions, is_new: bool) -> None:
    """Refuse to name columns where no file has any: who asks for a column of weights expects that it is read.

    A data set that is there has its columns: a file without one that is ignored adds none.
    """
    tables = [source for source in sources if source.format in ("csv", "parquet")]
    for source in sources if options.group_column is not None else ():
        if source.format not in ("csv", "parquet"):
            problem = f"{source.format} files have no columns with names, and so no groups"
            raise DataError(f"{problem}; leave --group out, or write the rows as CSV or Parquet", path=source.path)
    if tables:
        layouts = [source.layout for source in tables if hasattr(source, "layout")]
        if len(tables) == len(sources):
            refuse_indices(layouts, options, tables[0].path)
        if is_new:
            refuse_unknown(layouts, options, tables[0].path)
        return
    for name in ("label_column", "weight_column", "ignore"):
        if getattr(options, name) != getattr(ReadOptions, name):
            problem = f"{sources[0].format} files have no columns with names"
            raise DataError(f"{problem}; leave --{name.replace('_', '-')} out", path=sources[0].path)


def settled(spec: IngestSpec, old: Manifest | None, given: Collection[str] = ()) -> IngestSpec:
    """Return the spec with what an existing data set settles: index base, feature limit, bias, groups and ids."""
    check_bias(spec.bias)
    if spec.reading.table is not None:
        check_bias(spec.reading.table.bias)
    if old is None:
        return spec
    if "columns" in given:
        raise DataError("--columns is settled by the data set; leave it out when appending")
    if (spec.bias or "bias" in given) and spec.bias != old.bias:
        raise DataError(f"--bias {spec.bias:g} differs from the data set's {old.bias:g}; leave it out when appending")
    if spec.positive is not None and old.labels.classes:
        problem = f"--positive {spec.positive} makes two classes, and the data set has {len(old.labels.classes):,}"
        raise DataError(f"{problem}; leave it out when appending")
    if spec.positive is not None and label_text(spec.positive) not in old.labels.positive:
        raise DataError(
            f"--positive {spec.positive} differs from the data set's label map; leave it out when appending"
        )
    rules = spec.reading.rules
    if old.bias or old.columns is not None:
        own = old.features - (1 if old.bias else 0)
        if rules.features not in (None, own):
            raise DataError(
                f"--features {rules.features} differs from the data set's {own:,}; leave it out when appending"
            )
        rules = replace(rules, features=own)
    group = spec.reading.group_column
    if group not in (None, old.group):
        has = f"'{old.group}'" if old.group else "none"
        raise DataError(f"--group {group} differs from the data set's, which is {has}; leave it out when appending")
    if "ids" in given and spec.ids != old.ids:
        has = ", ".join(old.ids) or "none"
        raise DataError(f"--id {spec.ids[0]} differs from the data set's ids ({has}); leave it out when appending")
    reading = replace(spec.reading, rules=rules, text_base=old.index_base, group_column=old.group, table=None)
    if old.encoding is not None:
        reading = reading.encoded(old.encoding)
    elif old.ids:
        reading = replace(reading, ignore=tuple(dict.fromkeys([*reading.ignore, *old.ids])))
    return replace(spec, bias=old.bias, reading=reading, ids=old.ids)


def check_bias(bias: float) -> None:
    """Refuse a bias that no norm has room for."""
    if not isinstance(bias, Real) or not math.isfinite(bias):
        raise DataError(f"--bias {bias!r} is no finite number; choose one near 1, or 0 for none")
    if abs(bias) > LARGEST_NORM:
        raise DataError(f"--bias {bias:g} is too large; scale the features and choose a bias near 1")
