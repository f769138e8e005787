"""Parquet: tables of hostile types, names, nulls and lists, and damaged files."""

from __future__ import annotations

import io
import math
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.data.parquet_dataset import open_parquet_dataset
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from tests.fuzz.mutate import TEXTS, mutated
from tests.fuzz.reading import CannotBeReadError, Case, FileTarget, random_rules
from tests.fuzz.rows import Row, compare_shards, label_of

WHOLE_FILES = 40
FLOATS = (0.0, -0.0, 1e308, 1e150, 1e-300, 5e-324, math.nan, math.inf, -math.inf, None, 2.0**53 + 2)
INTEGERS = (-(2**63), -1, 0, 1, 4, 5, 6, 2**31 - 2, 2**31 - 1, 2**31, 2**63 - 1, None)
TYPES = (
    *(pa.float64(), pa.float32(), pa.float16(), pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.bool_()),
    *(pa.string(),),
    *(pa.large_string(), pa.binary(), pa.null(), pa.date32(), pa.timestamp("s"), pa.decimal128(20, 3)),
    *(pa.list_(pa.float64()), pa.struct([("a", pa.int8())]), pa.dictionary(pa.int8(), pa.string())),
)


class Parquet(FileTarget):
    """List columns or one column a feature; through ingest and as it lies there."""

    name = "parquet"
    share = 2

    def prepare(self, folder: Path) -> None:
        """Write whole files to be damaged."""
        super().prepare(folder)
        chance = Random(self.name)
        self.files = [_written(chance, _table(chance)) for _ in range(WHOLE_FILES)]

    def make(self, chance: Random) -> Case:
        """Make a file."""
        whole, table = chance.random() < 0.1, _table(chance)
        rules = ReadRules() if whole else random_rules(chance, 5)
        names = [name for name in table.column_names if name not in ("label", "weight")]
        to_score = rules.unlabelled and "indices" not in names
        reading = ReadOptions(rules=rules, wanted=tuple(chance.sample(names, len(names))) if to_score else None)
        if whole or chance.random() < 0.6:
            table = table if whole else _lying(chance, table)
            lists = any(pa.types.is_list(field.type) for field in table.schema)
            rows = None if rules.unlabelled and lists else (lambda: slow_rows(table, reading.wanted))
            return Case("rows.parquet", _written(chance, table), rows, reading, whole, rules.base or 0 if lists else 0)
        content = mutated(chance, chance.choice(self.files))
        if chance.random() < 0.05:
            content = b"PAR1" + chance.randbytes(chance.randrange(60)) + b"PAR1"
        return Case("rows.parquet", content, None, reading)

    def _ingest(self, case: Case, path: Path, out: Path) -> None:
        """Open it in place as often as it is ingested."""
        super()._ingest(case, path, out)
        data = open_parquet_dataset(str(path), case.options)
        for shard in data.shards:
            shard.load()
        if case.rows:
            compare_shards(data, case.rows(), case.base or 0)


def _table(chance: Random) -> pa.Table:
    n = chance.randrange(2, 7)
    labels = chance.choice(([0, 1], [1.0, -1.0], ["a", "b"], [b"a", b"b"], [True, False], ["2", "x", "10"]))
    columns: dict[str, Any] = {"label": pa.array([labels[i % len(labels)] for i in range(n)])}
    if chance.random() < 0.3:
        columns["weight"] = pa.array([chance.random() + 0.5 for _ in range(n)])
    if chance.random() < 0.4:
        lists = [sorted(chance.sample(range(5), chance.randrange(5))) for _ in range(n)]
        columns["indices"] = pa.array(lists, pa.list_(chance.choice((pa.int32(), pa.int64(), pa.uint8()))))
        columns["values"] = pa.array([[chance.gauss(0, 1) for _ in row] for row in lists], pa.list_(pa.float64()))
    else:
        for j in range(chance.randrange(1, 5)):
            columns[f"f{j}"] = pa.array([chance.gauss(0, 1) for _ in range(n)])
    return pa.table(columns)


def _lying(chance: Random, table: pa.Table) -> pa.Table:
    """Change a value, a type, a name, or leave a column out."""
    place = chance.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place)
    change = chance.random()
    if change < 0.5:
        return table.set_column(place, name, _with_a_value(chance, column))
    if change < 0.75:
        return table.set_column(place, name, _of_type(chance.choice(TYPES), column))
    if change < 0.9:
        names = list(table.column_names)
        names[place] = chance.choice(
            (*TEXTS, "label", "weight", "indices", "values", "__index_level_0__", "__null_dask_index__", "f0")
        )
        return table.rename_columns(names)
    return table.drop_columns([name]) if chance.random() < 0.5 else table.slice(0, 0)


def _with_a_value(chance: Random, column: pa.ChunkedArray) -> pa.Array:
    values = column.to_pylist()
    row = chance.randrange(len(values))
    choices: Any = INTEGERS if pa.types.is_integer(column.type) else FLOATS
    if pa.types.is_list(column.type):
        inner = INTEGERS if pa.types.is_integer(column.type.value_type) else FLOATS
        entry = chance.choice(inner)
        values[row] = chance.choice((None, [], [entry], [*values[row], entry], values[row][:-1], values[row] * 2))
    elif pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        values[row] = chance.choice(choices)
    elif pa.types.is_string(column.type):
        values[row] = chance.choice((*TEXTS, None, "nan", "1"))
    else:
        values[row] = None
    try:
        return pa.array(values, column.type)
    except (pa.ArrowException, OverflowError):
        return column


def _of_type(kind: pa.DataType, column: pa.ChunkedArray) -> pa.Array:
    try:
        return column.cast(kind, safe=False)
    except pa.ArrowException:
        return pa.nulls(len(column), kind)


def _written(chance: Random, table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(
        table,
        stream,
        row_group_size=chance.choice((None, 1, 2)),
        compression=chance.choice(("none", "snappy", "zstd")),
        use_dictionary=chance.random() < 0.5,
        version=chance.choice(("1.0", "2.6")),
        data_page_version=chance.choice(("1.0", "2.0")),
    )
    return stream.getvalue()


def slow_rows(table: pa.Table, wanted: tuple[str, ...] | None) -> list[Row]:
    """Read a table value by value; Arrow's floats are taken for decimals, which it rounds in its own way."""
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.float64()))
    names = table.column_names
    if len(set(names)) < len(names) or not set(wanted or ["label"]) <= set(names):
        raise CannotBeReadError(f"columns {names}")
    rows = []
    for line in table.to_pylist():
        if wanted is not None:
            rows.append(Row("", [(j, _number(line[name])) for j, name in enumerate(wanted)]))
            continue
        label, weight = line.pop("label"), line.pop("weight", 1.0)
        if isinstance(line.get("indices"), list) or isinstance(line.get("values"), list):
            pairs = list(zip(line.get("indices") or [], line.get("values") or [], strict=False))
            if len(line.get("indices") or []) != len(line.get("values") or []):
                raise CannotBeReadError("lists of unequal lengths")
        else:
            pairs = list(enumerate(value for name, value in line.items() if not name.startswith("__")))
        rows.append(Row(_label(label), [(j, _number(value)) for j, value in pairs], float(weight)))
    return rows


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise CannotBeReadError(f"{value!r} is no number")
    return float(value)


def _label(value: Any) -> Any:
    if value is None:
        raise CannotBeReadError("no label")
    text = (
        value.decode("utf-8", "replace")
        if isinstance(value, bytes)
        else str(int(value) if value is True or value is False else value)
    )
    return label_of(text)
