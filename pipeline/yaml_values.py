"""What stands in a hand-written YAML file, as its reader needs it: each takes a value or says what is wrong."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any

from pipeline.errors import SieveError
from pipeline.redact import redacted
from pipeline.sizes import bytes_of

LARGEST_NUMBER = 1 << 62  # an int64, with room to add
LONGEST_SHOWN = 80  # characters
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = LONGEST_SHOWN


def brief(value: Any) -> str:
    """Return a value for a message: a small file can stand for a value of any size.

    An address loses its credentials before it is cut: the rest of one cannot be told from other text.
    """
    return _SHORT.repr(redacted(value) if isinstance(value, str) else value)


def text(value: Any) -> str:
    """Read text; a number or a truth value is one that was not quoted."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{brief(value)} is not text; put it in quotes if it is meant so")
    if not value.isprintable():
        raise ValueError(f"{brief(value)} holds characters that are not printable")
    return value


def label(value: Any) -> str:
    """Read a label: text or a number."""
    return str(value) if type(value) in (int, float) else text(value)


def number(value: Any) -> float:
    """Read a number."""
    try:
        if isinstance(value, bool | None):
            raise ValueError
        found = float(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{brief(value)} is not a number") from None
    if not math.isfinite(found):
        raise ValueError(f"{brief(value)} is not a finite number")
    return found


def whole(smallest: int, largest: int = LARGEST_NUMBER) -> Callable[[Any], int]:
    """Read a whole number that is not below ``smallest``, nor above ``largest``."""

    def read(value: Any) -> int:
        if type(value) is not int or value < smallest:
            raise ValueError(f"{brief(value)} is not a whole number from {smallest} on")
        if value > largest:
            raise ValueError(f"{brief(value)} is above {largest}")
        return value

    return read


def flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{brief(value)} is neither true nor false")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Read one text or a list of texts."""
    found = value if isinstance(value, list) else [value]
    if not found:
        raise ValueError("the list is empty")
    return tuple(text(item) for item in found)


def one_of(*choices: str) -> Callable[[Any], str]:
    """Read one of some words."""

    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"{brief(value)} is not one of {', '.join(choices)}")
        return str(value)

    return read


def size(value: Any) -> int:
    """Read a number of bytes, such as 64MB."""
    if type(value) is int:
        return whole(1)(value)
    try:
        return whole(1)(bytes_of(text(value)))
    except SieveError as error:
        raise ValueError(f"{brief(value)} is not a size; write for example 64MB or 2GiB") from error
