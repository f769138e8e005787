"""A night's record: its line of history.jsonl. Strict JSON with a version; lines of older versions have none.

A line that is damaged stays where it is and is reported; the nights before and after it count.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pipeline.nightly.days import moment
from pipeline.yaml_values import brief

VERSION = 2
PUBLISHED, REFUSED, HELD, FAILED, NOTHING_NEW = "published", "refused", "held", "failed", "nothing new"
STATUSES = (PUBLISHED, REFUSED, HELD, FAILED, NOTHING_NEW)
TRAINED = (PUBLISHED, REFUSED, HELD)
_NIGHT = re.compile(r"\d{4}-\d{2}-\d{2}(\.[1-9]\d{0,8})?")
_TEXTS = ("fingerprint", "settings", "error", "problem", "reference")
_NUMBERS = ("rows", "features", "c", "relative_gap")


@dataclass(frozen=True)
class History:
    """The lines of a history that can be read, in order, and what is wrong with the others."""

    lines: list[dict[str, Any]]
    damage: list[str]


def is_night(name: object) -> bool:
    """Whether this is the name of a night: 2026-11-16, or 2026-11-16.2 for the second one of a day."""
    return isinstance(name, str) and _NIGHT.fullmatch(name) is not None and _is_day(name[:10])


def written(line: dict[str, Any]) -> str:
    """Return a record as a line of text; what is not a number (nan, inf) is null."""
    return json.dumps(strict(line), allow_nan=False) + "\n"


def strict(item: Any) -> Any:
    """Return an item that JSON has a form for."""
    if isinstance(item, dict):
        return {str(key): strict(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [strict(value) for value in item]
    return None if isinstance(item, float) and not math.isfinite(item) else item


def read_history(path: Path) -> History:
    """Read all lines; what follows the last newline was never written to its end."""
    found = History([], [])
    if not path.is_file():
        return found
    texts = path.read_bytes().split(b"\n")
    for number, text in enumerate(texts[:-1] if not texts[-1].strip() else texts, 1):
        try:
            found.lines.append(checked(json.loads(text.decode("utf-8"))))
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            reason = brief(str(error) or type(error).__name__)
            found.damage.append(f"{path}, line {number}: damaged ({reason}); the line is left out, mend or remove it")
    return found


def checked(item: Any) -> dict[str, Any]:
    """Return a record whose main parts are what they should be; raise ValueError if they are not."""
    if not isinstance(item, dict):
        raise ValueError("not an object")
    if item.get("version", 1) not in (1, VERSION):
        raise ValueError(f"version {item['version']!r}, but this svmsieve reads up to {VERSION}")
    if not is_night(item["night"]) or not _is_day(item["date"]) or item["status"] not in STATUSES:
        raise ValueError("night, date or status is none")
    if not all(isinstance(item.get(name), str | None) for name in _TEXTS):
        raise ValueError("a text is none")
    if not all(isinstance(item.get(name), int | float | None) for name in _NUMBERS):
        raise ValueError("a number is none")
    if not isinstance(item.get("scores"), dict | None) or not isinstance(item.get("gates", []), list):
        raise ValueError("scores or gates are none")
    if item.get("ended") is not None:
        moment(item["ended"])
    return {name: strict(value) for name, value in item.items()}


def _is_day(text: object) -> bool:
    try:
        return isinstance(text, str) and len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False
