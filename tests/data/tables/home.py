"""Tables as users have them, written as CSV or Parquet, for tests of commands."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Rows = list[dict[str, Any]]


def table(n: int = 60, seed: int = 0) -> Rows:
    """Return rows with numbers, values, dates, truth values and gaps; the label depends on them."""
    chance = random.Random(seed)
    rows = []
    for k in range(n):
        x, carrier, hour = chance.choice((None, chance.gauss(3, 2))), chance.choice(("UA", "AA", None)), k % 24
        late = (x or 3) + (carrier == "UA") + chance.gauss(0, 0.5) > 3.2
        rows.append(
            {
                "x": None if x is None else round(x, 3),
                "carrier": carrier,
                "when": f"2013-0{1 + k % 6}-11T{hour:02}:00:00",
                "flag": chance.random() < 0.5,
                "row_id": f"r{seed}-{k}",
                "label": "late" if late else "in time",
            }
        )
    return rows


def write(path: Path, rows: Rows, names: list[str] | None = None, separator: str = ",") -> Path:
    """Write some columns, by the format that the path's name says."""
    names = [*rows[0]] if names is None else names
    if path.suffix == ".parquet":
        pq.write_table(pa.table({name: [row[name] for row in rows] for name in names}), path)
        return path
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=separator)
        writer.writerow(names)
        writer.writerows([["" if row[name] is None else row[name] for name in names] for row in rows])
    return path


def changed(rows: Rows, **columns: Any) -> Rows:
    """Return the rows with other columns: a value for all rows, or a list of them."""
    return [
        row | {name: value[k] if isinstance(value, list) else value for name, value in columns.items()}
        for k, row in enumerate(rows)
    ]


def without(rows: Rows, *names: str) -> Rows:
    """Return the rows with fewer columns."""
    return [{name: value for name, value in row.items() if name not in names} for row in rows]
