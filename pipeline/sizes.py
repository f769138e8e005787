"""Sizes as people write them: 67108864, 64MB, 64MiB, 2GB."""

from __future__ import annotations

import re

from pipeline.errors import SpecError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def bytes_of(text: int | str) -> int:
    """Return a number of bytes."""
    if isinstance(text, int):
        return text
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]i?)?b?\s*", text, re.IGNORECASE)
    try:
        count = int(float(found[1]) * _UNITS[(found[2] or "").lower()]) if found else 0
    except ValueError:
        count = 0
    if count < 1:
        raise SpecError(f"{text!r} is not a size; write for example 64MB or 2GiB")
    return count
