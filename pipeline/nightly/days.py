"""A file's day: from its Hive-style folders, else from its name, else from its last change. All days are UTC days.

A date in a folder or a name is taken as it is written; the time and the zone that may follow it move nothing. The day
of a last change is that of the moment in UTC, on whatever machine and in whatever zone the job runs. What looks like a
date but is none (20261340, the hour 25) counts for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import PurePosixPath
from typing import Any

_ISO = r"((?:19|20)\d{2})-(\d{2})-(\d{2})"
_DIGITS = r"((?:19|20)\d{2})(\d{2})(\d{2})(?:(?:[01]\d|2[0-3])[0-5]\d[0-5]\d)?"
_DATES = re.compile(rf"(?<!\d)(?:{_ISO}|{_DIGITS})(?!\d)")
_PARTS = ("year", "month", "day")


def today() -> date:
    """Return the day that it is now."""
    return datetime.now(UTC).date()


def now() -> str:
    """Return this moment as it stands in records: 2026-11-16T02:13:45Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """Read a moment of a record; a day alone is its beginning."""
    when = datetime.fromisoformat(text)
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def day_of(path: str, changed: Any) -> date:
    """Return the day of a file; ``changed`` is when it last did, in seconds since 1970 or as a datetime.

    Of folders such as ``date=2026-11-16`` (or dt=, ds=, day=20261116 ...) and ``year=2026/month=11/day=16`` the
    innermost that is a date counts, then the first date in the name: 2026-11-16, 20261116 or 20261116093000.
    """
    *folders, name = PurePosixPath(path).parts or ("",)
    written = next(_of_folders(folders), None) or next(_dates(name), None)
    if written is not None:
        return written
    try:
        when = changed if isinstance(changed, datetime) else datetime.fromtimestamp(float(changed), UTC)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC).date()
    except (OverflowError, OSError, ValueError):
        return date.max  # no calendar has it


def _of_folders(folders: list[str]) -> Iterator[date]:
    named = [folder.partition("=")[::2] for folder in folders if "=" in folder]
    parts = {key.lower(): value for key, value in named}
    for _, value in reversed(named):
        yield from _dates(value)
    try:
        yield date(*(int(parts[part]) for part in _PARTS))
    except (KeyError, ValueError, OverflowError):
        return


def _dates(text: str) -> Iterator[date]:
    for found in _DATES.finditer(text):
        year, month, day = (int(part) for part in found.groups() if part)
        try:
            yield date(year, month, day)
        except ValueError:
            continue
