"""A night's record: its line of history.jsonl. Strict JSON with a version.

From version 3 on every key is there, and what a night has not is null: one that failed has no model, one that found
nothing new has no gates. Version 2 left such keys out, and version 1 its version, too; both are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import date
from typing import Any

from pipeline.dataclass import dataclass
from pipeline.maths.calibration import is_number
from pipeline.nightly.days import moment
from pipeline.nightly.gate import Verdict

VERSION = 3
READABLE = (1, 2, VERSION)
PUBLISHED, REFUSED, HELD, FAILED, NOTHING_NEW = "published", "refused", "held", "failed", "nothing new"
STATUSES = (PUBLISHED, REFUSED, HELD, FAILED, NOTHING_NEW)
TRAINED = (PUBLISHED, REFUSED, HELD)
_NIGHT = re.compile(r"\d{4}-\d{2}-\d{2}(\.[1-9]\d{0,8})?")


@dataclass(frozen=True)
class LeftOut:
    """An input file that was not taken in: its status in the ledger, and why."""

    file: str
    status: str
    reason: str


@dataclass(frozen=True)
class NightFiles:
    """What came and went in a night: names of files, and numbers of rows."""

    added: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    rows_added: int = 0
    rows_retired: int = 0


@dataclass(frozen=True, kw_only=True)
class NightRecord:
    """What history.jsonl says of a night; None for what it has not."""

    night: str
    """The name of the night and of its run: 2026-11-16, or 2026-11-16.2 for the second one of a day."""
    date: str
    """The day it was run as of."""
    status: str
    """published, refused (by a gate, or its certificate does not hold), held, failed, or nothing new."""
    reference: str | None = None
    """The run that the night started from and was compared with."""
    settings: str | None = None
    """A digest of the job's settings for training."""
    files: NightFiles = NightFiles()
    """What came and went."""
    notes: tuple[str, ...] = ()
    """What else somebody should know."""
    rows: int | None = None
    """Rows of the data set."""
    features: int | None = None
    """Features of the data set."""
    fingerprint: str | None = None
    """The fingerprint of the data set."""
    c: float | None = None
    """The C of the best model."""
    models: int | None = None
    """How many models were trained."""
    relative_gap: float | None = None
    """The certificate of the best model."""
    verified: bool | None = None
    """Whether that was found to hold."""
    problem: str | None = None
    """Why it does not; empty if it does."""
    settled: float | None = None
    """The share of the rows that yesterday's model settled before training."""
    reference_gap: float | None = None
    """The relative gap of yesterday's model on today's data."""
    scores: dict[str, float | None] | None = None
    """Scores of the best model on the rows held out."""
    yesterday: dict[str, float | None] | None = None
    """Scores of yesterday's model on the same rows."""
    gates: tuple[Verdict, ...] = ()
    """What the gates say."""
    passes: float | None = None
    """How often training read the data."""
    seconds: dict[str, float] | None = None
    """What the night took: intake, screen, train, verify, total."""
    error: str | None = None
    """Why it failed."""
    ended: str | None = None
    """When it ended, in UTC."""

    def to_json(self) -> dict[str, Any]:
        """Return the line; what is not a number (nan, inf) is null."""
        item = {each.name: getattr(self, each.name) for each in fields(self)}
        left_out = [vars(each) for each in self.files.left_out]
        item |= {"files": vars(self.files) | {"left_out": left_out}, "gates": [vars(gate) for gate in self.gates]}
        return strict({"version": VERSION, **item})

    @classmethod
    def from_json(cls, item: Any) -> NightRecord:
        """Read a line of any version; raise ValueError if something in it is not what it should be."""
        if not isinstance(item, dict):
            raise ValueError("not an object")
        if item.get("version", 1) not in READABLE:
            raise ValueError(f"version {item['version']!r}, but this svmsieve reads up to {VERSION}")
        if not is_night(item.get("night")) or not _is_day(item.get("date")) or item.get("status") not in STATUSES:
            raise ValueError("night, date or status is none")
        item = strict({each.name: item.get(each.name) for each in fields(cls)})
        for name, check in _KINDS.items():
            if item[name] is not None and not check(item[name]):
                raise ValueError(f"{name} is none")
        if item["ended"] is not None:
            moment(item["ended"])
        gates = (
            Verdict(**{each.name: gate.get(each.name) for each in fields(Verdict)}) for gate in item["gates"] or ()
        )
        return cls(
            **item | {"files": _files(item["files"] or {}), "notes": tuple(item["notes"] or ()), "gates": tuple(gates)}
        )


def is_night(name: object) -> bool:
    """Whether this is the name of a night: 2026-11-16, or 2026-11-16.2 for the second one of a day."""
    return isinstance(name, str) and _NIGHT.fullmatch(name) is not None and _is_day(name[:10])


def strict(item: Any) -> Any:
    """Return an item that JSON has a form for."""
    if isinstance(item, dict):
        return {str(key): strict(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [strict(value) for value in item]
    return None if isinstance(item, float) and not math.isfinite(item) else item


def _is_day(text: object) -> bool:
    try:
        return isinstance(text, str) and len(text) == 10 and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_text(x: Any) -> bool:
    return isinstance(x, str)


def _is_whole(x: Any) -> bool:
    return isinstance(x, int) and is_number(x)


def _are_texts(x: Any) -> bool:
    return isinstance(x, list) and all(map(_is_text, x))


def _are_numbers(x: Any) -> bool:
    return isinstance(x, dict) and all(map(is_number, x.values()))


def _are_scores(x: Any) -> bool:
    return isinstance(x, dict) and all(value is None or is_number(value) for value in x.values())


def _is_gate(x: Any) -> bool:
    if not isinstance(x, dict) or not _is_text(x.get("gate")) or not isinstance(x.get("passed"), bool):
        return False
    return all(x.get(name) is None or is_number(x[name]) for name in ("value", "limit"))


_KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("reference", "settings", "fingerprint", "problem", "error", "ended"), _is_text),
    **dict.fromkeys(("rows", "features", "models"), _is_whole),
    **dict.fromkeys(("c", "relative_gap", "settled", "reference_gap", "passes"), is_number),
    **dict.fromkeys(("scores", "yesterday"), _are_scores),
    "files": lambda x: isinstance(x, dict),
    "notes": _are_texts,
    "verified": lambda x: isinstance(x, bool),
    "gates": lambda x: isinstance(x, list) and all(map(_is_gate, x)),
    "seconds": _are_numbers,
}


def _files(item: dict[str, Any]) -> NightFiles:
    """Read what came and went; early nights may not say all of it."""
    names = {key: item.get(key, []) for key in ("added", "late", "retired")}
    left_out, rows = item.get("left_out", []), {key: item.get(key, 0) for key in ("rows_added", "rows_retired")}
    if (
        not all(map(_are_texts, names.values()))
        or not isinstance(left_out, list)
        or not all(map(_is_whole, rows.values()))
    ):
        raise ValueError("files are none")
    reasons = [LeftOut(**{each.name: entry[each.name] for each in fields(LeftOut)}) for entry in left_out]
    if not all(_are_texts(list(vars(each).values())) for each in reasons):
        raise ValueError("a file that was left out is none")
    added, late, retired = (tuple(value) for value in names.values())
    return NightFiles(added, late, retired, tuple(reasons), *rows.values())
