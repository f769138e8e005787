"""Which columns of a table mean what: label, weight, group, features.

To train on, every column is a feature but label, weight, group, those to be ignored, and what a writer of Parquet kept
as its row index. To be scored by a model with named features, the features are the model's columns, wherever they
stand; a missing one is an error, others are left aside, and there need be no label. A weight tells no more of them than
whether they were trained on, a group nothing.

Of a table that is to be learnt from, all those columns are ``raw``; once it is, the ``encoding`` says which it needs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.data.reading.base import ReadOptions
from pipeline.dataclass import dataclass
from pipeline.errors import DataError

if TYPE_CHECKING:
    from pipeline.data.tables.encoding import Encoding

BATCH_CELLS = 1 << 20  # 8 MB as float64
ROW_CELLS = 8  # what a row takes besides its features: label, cost, norm, where it begins
MOST_COLUMNS = 1 << 20  # a name, a type and a buffer for each are a kilobyte: more columns belong into a sparse format
_INDEX = re.compile(r"__index_level_\d+__|__null_dask_index__")
SHOWN = 8  # columns that an error names


@dataclass(frozen=True)
class Layout:
    """Which columns mean what. ``features`` is None where columns are not features as they are.

    Then they are ``raw``, for a first look; or an ``encoding`` makes features of them; or rows are list columns
    ``indices`` and ``values``.

    ``label`` is None in rows to be scored that have none; ``extra`` columns are then those that no model column is.
    ``ignored`` are those of the columns to be ignored that are there.
    """

    label: str | None
    weight: str | None
    features: tuple[str, ...] | None
    extra: tuple[str, ...] = ()
    group: str | None = None
    ignored: tuple[str, ...] = ()
    raw: tuple[str, ...] | None = None
    encoding: Encoding | None = None

    @property
    def has_lists(self) -> bool:
        """Whether rows are list columns."""
        return self.features is None and self.raw is None and self.encoding is None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that features are made of."""
        if self.encoding is not None:
            return self.encoding.inputs
        found = self.raw if self.features is None else self.features
        return ("indices", "values") if found is None else found

    @property
    def names(self) -> list[str]:
        """Every column that has to be read."""
        return [*(name for name in (self.label, self.weight, self.group) if name is not None), *self.inputs]

    def batch_rows(self, list_entries: float = 0.0) -> int:
        """Return how many rows to take at a time so that a batch stays small; lists have so many entries a row."""
        width = max(BATCH_CELLS >> 14, round(list_entries)) if self.has_lists else len(self.inputs)
        return max(1, BATCH_CELLS // (width + ROW_CELLS))


def layout_of(schema: pa.Schema, path: str, options: ReadOptions) -> Layout:
    """Find label, weight and features in a schema, or say which column is missing or not a number."""
    if len(schema.names) > MOST_COLUMNS:
        problem = f"{len(schema.names):,} columns, and a table may have {MOST_COLUMNS:,}"
        raise DataError(f"{problem}; write rows this wide as svmlight, npz or list columns", path=path)
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise DataError(f"column '{twice[0]}' stands twice in the header; rename one", path=path)
    found = _to_score(schema, path, options) if options.rules.unlabelled else _to_train(schema, path, options)
    return replace(found, ignored=tuple(name for name in options.ignore if name in schema.names))


def n_features_of(layout: Layout) -> int | None:
    """Return how many features rows have, if the columns say so."""
    if layout.encoding is not None:
        return layout.encoding.n_features
    return None if layout.features is None else len(layout.features)


def refuse_unknown(layouts: Iterable[Layout], options: ReadOptions, path: str) -> None:
    """Refuse to ignore a column that no table has: it may be misspelt, and the one that was meant a feature now."""
    there = {name for layout in layouts for name in layout.ignored}
    for name in options.ignore:
        if name not in there:
            raise DataError(f"no column '{name}'; correct --ignore {name} or leave it out", path=path)


def refuse_indices(layouts: Iterable[Layout], options: ReadOptions, path: str) -> None:
    """Refuse to say what indices mean where no table has any: features are columns, which have names."""
    if any(layout.has_lists for layout in layouts):
        return
    for name, given in (("index-base", options.rules.base is not None), ("duplicates", options.rules.add_duplicates)):
        if given:
            raise DataError(f"features are columns here, which have no indices; leave --{name} out", path=path)


def listed(names: list[str]) -> str:
    """Return some names for people."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")


def _to_train(schema: pa.Schema, path: str, options: ReadOptions) -> Layout:
    names = schema.names
    if options.label_column not in names:
        shown = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        raise DataError(
            f"no column '{options.label_column}' for the labels; there are {shown}; pass --label-column NAME", path=path
        )
    _check_label(schema.field(options.label_column).type, path, options)
    weight = options.weight_column if options.weight_column in names else None
    usual = options.weight_column == ReadOptions.weight_column
    if options.encoding is not None and options.encoding.weight is None and usual:
        weight = None  # what was learnt from had no weights: a column of that name is a new one
    elif weight is None and (not usual or (options.encoding is not None and options.encoding.weight is not None)):
        raise DataError(f"no column '{options.weight_column}'; correct --weight-column or leave it out", path=path)
    if weight == options.label_column:
        raise DataError(f"column '{weight}' is the label; name another in --weight-column", path=path)
    group = options.group_column
    if group is not None and (group not in names or group in (options.label_column, weight)):
        problem = f"column '{group}' is the label or the weight" if group in names else f"no column '{group}'"
        raise DataError(f"{problem}; correct --group or leave it out", path=path)
    if _has_lists(schema):
        _check_lists(schema, path)
        return Layout(options.label_column, weight, None, group=group)
    aside = {options.label_column, weight, group, *index_columns(schema), *options.ignore}
    features = tuple(name for name in names if name not in aside)
    if options.encoding is not None:
        _check_inputs(options.encoding, names, path, options, weight)
        extra = tuple(name for name in features if name not in options.encoding.known)
        return Layout(options.label_column, weight, None, extra, group, encoding=options.encoding)
    if "" in features:
        place = names.index("") + 1
        raise DataError(f"column {place} has no name; name it, or drop it if it numbers the rows", path=path)
    if not features:
        raise DataError("no feature columns; every column but label and weight is a feature", path=path)
    if options.table is not None:
        return Layout(options.label_column, weight, None, group=group, raw=features)
    _check_numeric(schema, features, path)
    return Layout(options.label_column, weight, features, group=group)


def _check_inputs(
    encoding: Encoding, names: list[str], path: str, options: ReadOptions, weight: str | None = None
) -> None:
    """Refuse a table without a column that features are made of, or where one is to be something else."""
    missing = [name for name in encoding.inputs if name not in set(names)]
    if missing:
        what = "column" if len(missing) == 1 else "columns"
        raise DataError(f"no {what} {listed(missing)}, which the model needs; add what is missing", path=path)
    needed = [name for name in options.ignore if name in encoding.inputs]
    if needed:
        raise DataError(f"column {needed[0]} is one that the model needs; leave --ignore {needed[0]} out", path=path)
    if options.rules.unlabelled:  # it need not have them
        return
    others = (("label-column", options.label_column), ("weight-column", weight), ("group", options.group_column))
    for option, name in others:
        if name in encoding.inputs:
            problem = f"column '{name}' is one that features are made of"
            raise DataError(f"{problem}; name another in --{option}, or leave it out", path=path)


def _encoded_to_score(schema: pa.Schema, path: str, encoding: Encoding, options: ReadOptions) -> Layout:
    """Find the columns of an encoding in rows to be scored, wherever they stand."""
    _check_inputs(encoding, schema.names, path, options)
    label = options.label_column if options.label_column in schema.names else None
    label = None if label in encoding.inputs else label
    if label is not None:
        _check_label(schema.field(label).type, path, options)
    known = {*encoding.known, options.label_column, options.weight_column, *index_columns(schema), *options.ignore}
    extra = tuple(name for name in schema.names if name not in known)
    weight = _weight_to_score(schema, encoding.inputs, options)
    return Layout(label, weight, None, extra, encoding=encoding)


def _to_score(schema: pa.Schema, path: str, options: ReadOptions) -> Layout:
    if options.encoding is not None and not _has_lists(schema):
        return _encoded_to_score(schema, path, options.encoding, options)
    names, wanted = schema.names, options.wanted
    label = options.label_column if options.label_column in names else None
    if _has_lists(schema) and not (wanted is not None and set(wanted) <= set(names)):
        _check_lists(schema, path)
        features = None
    else:
        if wanted is None:
            problem = "has named columns, but the run does not say which column was which feature"
            raise DataError(f"{problem}; train again on a table, or write these rows as the training data", path=path)
        missing = [name for name in wanted if name not in set(names)]
        if missing:
            what = "column" if len(missing) == 1 else "columns"
            raise DataError(f"no {what} {listed(missing)}, which the model needs; add what is missing", path=path)
        needed = [name for name in options.ignore if name in set(wanted)]
        if needed:
            raise DataError(
                f"column {needed[0]} is one that the model needs; leave --ignore {needed[0]} out", path=path
            )
        features = wanted
        label = None if label in wanted else label
        _check_numeric(schema, features, path)
    if label is not None:
        _check_label(schema.field(label).type, path, options)
    known = {label, options.weight_column, options.group_column, *(features or ("indices", "values"))}
    known |= {*index_columns(schema), *options.ignore}
    extra = tuple(name for name in names if name not in known)
    return Layout(label, _weight_to_score(schema, features, options), features, extra)


def _weight_to_score(schema: pa.Schema, features: tuple[str, ...] | None, options: ReadOptions) -> str | None:
    """Return the column with the weights, if there is one with numbers that is neither a feature nor to be ignored."""
    name = options.weight_column
    aside = name not in schema.names or name in (*(features or ()), *options.ignore, options.label_column)
    return None if aside or not is_numeric(schema.field(name).type) else name


def index_columns(schema: pa.Schema) -> set[str]:
    """Return the columns that number the rows: those of Dask and pandas by name, and whatever the metadata says."""
    found = {name for name in schema.names if _INDEX.fullmatch(name)}
    try:
        named = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        found |= {name for name in named if isinstance(name, str)}
    except (ValueError, LookupError, TypeError, RecursionError):
        pass  # metadata of another writer, or damaged: then it names no index
    return found


def _check_numeric(schema: pa.Schema, features: tuple[str, ...], path: str) -> None:
    for name in features:
        kind = schema.field(name).type
        if not (is_numeric(kind) or pa.types.is_boolean(kind)):
            raise DataError(not_numeric(name, kind), path=path)


def not_numeric(name: str | None, kind: pa.DataType) -> str:
    """Say that a column cannot be a feature."""
    return f"column '{name}' is {kind}, not numeric; drop or encode it, or pass --ignore {name}"


def _check_label(kind: pa.DataType, path: str, options: ReadOptions) -> None:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (is_numeric(kind) or is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        problem = f"column '{options.label_column}' is {kind}; labels must be numbers or text"
        raise DataError(f"{problem}: convert it or pass --label-column NAME", path=path)


def _has_lists(schema: pa.Schema) -> bool:
    return any(name in schema.names and is_list(schema.field(name).type) for name in ("indices", "values"))


def _check_lists(schema: pa.Schema, path: str) -> None:
    for name, allowed, what in (("indices", pa.types.is_integer, "whole numbers"), ("values", is_numeric, "numbers")):
        if name not in schema.names:
            raise DataError(f"no column '{name}'; rows as lists need the columns indices and values", path=path)
        kind = schema.field(name).type
        if not (is_list(kind) and allowed(kind.value_type)):
            raise DataError(f"column '{name}' is {kind}; it must hold lists of {what}: convert it", path=path)


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column holds numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    return any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )
