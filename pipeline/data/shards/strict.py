"""Reading JSON that others may have written: every value is of its type and within its range, or it is refused.

A form says for each key what its value must be. Python's own leniency does not count: True is no number here, and NaN
is none either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pipeline.dataclass import dataclass

LARGEST = 2**63 - 1  # of what counts bytes, rows or nanoseconds
_HALF = re.compile("[\ud800-\udfff]")
_SHOWN = 40  # characters of a wrong value


@dataclass(frozen=True)
class Must:
    """What a value must be: ``fits`` tells, ``said`` is for people."""

    fits: Callable[[Any], bool]
    said: str


Form = Mapping[str, Must]


def is_unicode(value: object) -> bool:
    """Tell text of whole characters: JSON may hold halves of some (as names of files may), which no table takes."""
    return type(value) is str and (value.isascii() or not _HALF.search(value))


ANY = Must(lambda value: True, "anything")
TEXT = Must(lambda value: type(value) is str, "text")
UNICODE = Must(is_unicode, "Unicode text")
FLAG = Must(lambda value: type(value) is bool, "true or false")


def whole_between(low: int, high: int) -> Must:
    """Return the demand for a whole number within a range."""
    return Must(lambda value: type(value) is int and low <= value <= high, f"a whole number from {low} to {high}")


def number_between(low: float, high: float) -> Must:
    """Return the demand for a number within a range; nan is in none."""
    return Must(
        lambda value: type(value) in (int, float) and low <= value <= high, f"a number from {low:g} to {high:g}"
    )


def one_among(*choices: object) -> Must:
    """Return the demand for one of a few values, of the same type."""
    known = {(type(choice), choice) for choice in choices}
    said = " or ".join("null" if choice is None else str(choice) for choice in choices)
    return Must(lambda value: type(value).__hash__ is not None and (type(value), value) in known, said)


def list_of(each: Must, or_none: bool = False, filled: bool = False) -> Must:
    """Return the demand for a list whose entries all fit; ``or_none`` allows null, ``filled`` wants some."""

    def fits(value: Any) -> bool:
        if value is None:
            return or_none
        return type(value) is list and (len(value) > 0 or not filled) and all(map(each.fits, value))

    kind = "a list" + ("" if each is ANY else f" ({each.said} each)") + (" that is not empty" if filled else "")
    return Must(fits, kind + (" or null" if or_none else ""))


OBJECT = Must(lambda value: type(value) is dict, "an object")


def fitting(item: Any, form: Form, where: str = "", more: bool = False) -> dict[str, Any]:
    """Return an object whose values fit the form, or raise ValueError naming the one that does not.

    ``more`` allows keys that the form does not have.
    """
    if type(item) is not dict:
        raise ValueError(f"{where or 'it'} is {as_json(item)}, not an object")
    for key, must in form.items():
        if key not in item:
            raise ValueError(f"{_named(where, key)} is not there")
        if not must.fits(item[key]):
            raise ValueError(f"{_named(where, key)} is {as_json(item[key])}, not {must.said}")
    if not more and len(item) > len(form):
        raise ValueError(f"{_named(where, min(set(item) - set(form)))} has no meaning")
    return item


def loads(content: bytes) -> Any:
    """Return what JSON says, without the numbers that JSON does not know."""
    return json.loads(content.decode("utf-8"), parse_constant=_refuse)


def as_json(value: Any) -> str:
    """Return a value as it stands in JSON, in one line that is not long."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _named(where: str, key: str) -> str:
    name = key if key.isidentifier() else as_json(key)
    return f"{where}.{name}" if where else name


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")
