"""What an encoding makes of a row, cell by cell in plain Python, from its JSON: no code of the encoding is in it."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import Any

import numpy as np
from sklearn.feature_extraction import FeatureHasher

GAPS = {
    *("", " ", "NA", "N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "n/a", "#N/A", "#NA", "#N/A N/A"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
}
LARGEST32 = float(np.finfo(np.float32).max)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
Feature = str | tuple[str, int]  # a name, or the number of a bucket


def features(table: dict[str, Any], row: dict[str, Any]) -> dict[Feature, float]:
    """Return what is not 0."""
    found: dict[Feature, float] = {}
    for role in table["roles"]:
        for name, value in ROLES[role["role"]](role, row, 2 ** table["hash_bits"]):
            found[name] = found.get(name, 0.0) + value
    return {name: value for name, value in found.items() if value != 0.0}


def is_gap(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell)) or (isinstance(cell, str) and cell in GAPS)


def spelled(cell: Any) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell)
    if isinstance(cell, str) and cell.lower() in ("true", "false") and cell.isascii():
        return cell.lower()
    found = re.fullmatch(r"(-?(?:0|[1-9][0-9]*))\.0+", cell) if isinstance(cell, str) else None
    return found[1] if found else str(cell)


def _number(role, row, buckets):
    cell = row[role["column"]]
    gap = is_gap(cell) or (isinstance(cell, str) and math.isnan(float(cell)))
    x = role["gap"] if gap else float(cell)
    value = (x - role["mean"]) / role["scale"]
    yield role["column"], value if role["scaled"] == "none" or abs(value) > LARGEST32 else float(np.float32(value))
    if role["missing"] == "indicator":
        yield f"{role['column']}=(missing)", float(gap)


def _category(role, row, buckets):
    cells = [row[name] for name in role["columns"]]
    if len(cells) == 1:
        text = None if is_gap(cells[0]) else spelled(cells[0])
        known = text in role["values"]
        value = "(missing)" if text is None else text if known else "(other)"
        yield f"{role['columns'][0]}={value}", 1.0
        return
    texts = _together(cells)
    if "\x1f".join(texts) in role["values"]:
        yield " & ".join(f"{name}={text}" for name, text in zip(role["columns"], texts, strict=True)), 1.0
    else:
        yield f"{' & '.join(role['columns'])}=(other)", 1.0


def _together(cells):
    return ["(missing)" if is_gap(cell) else spelled(cell).replace("\x1f", "\u241f") for cell in cells]


def _date(role, row, buckets):
    cell, name = row[role["column"]], role["column"]
    if is_gap(cell):
        yield f"{name}=(missing)", 1.0
        return
    when = cell
    if isinstance(cell, str):
        when = datetime.fromisoformat(
            re.sub(r"([.,]\d+)?(Z|[+-]\d\d:?(\d\d)?)?$", "", cell) if len(cell) > 10 else cell
        )
    elif isinstance(cell, date) and not isinstance(cell, datetime):
        when = datetime(cell.year, cell.month, cell.day)
    for part in role["parts"]:
        value = WEEKDAYS[when.weekday()] if part == "weekday" else getattr(when, part)
        yield f"{name}.{part}={value}", 1.0


def _hashed(role, row, buckets):
    cells = [row[name] for name in role["columns"]]
    texts = _together(cells) if len(cells) > 1 else ["(missing)" if is_gap(c) else spelled(c) for c in cells]
    yield from _bucket([" & ".join(f"{n}={t}" for n, t in zip(role["columns"], texts, strict=True))], buckets).items()


def _words(role, row, buckets):
    cell = row[role["column"]]
    words = [] if is_gap(cell) else re.findall(r"(?u)\b\w\w+\b", cell.lower())
    low, high = role["ngrams"]
    runs = [" ".join(words[k : k + n]) for n in range(low, high + 1) for k in range(len(words) - n + 1)]
    found = _bucket([f"{role['column']}:{run}" for run in runs], buckets)
    norm = math.sqrt(sum(value * value for value in found.values()))
    for bucket, value in found.items():
        yield bucket, float(np.float32(value / norm))


def _bucket(names, buckets):
    row = FeatureHasher(buckets, input_type="string").transform([names])
    row.sum_duplicates()
    return {("bucket", int(k)): float(v) for k, v in zip(row.indices, row.data, strict=True) if v}


ROLES = {"number": _number, "category": _category, "date": _date, "hashed": _hashed, "words": _words}
