"""Sizes as people write them: 67108864, 64MB, 64MiB, 2GB."""

from __future__ import annotations

import re

from pipeline.errors import SpecError, shown

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_FORM = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kmgt]i?)?b?\s*", re.IGNORECASE | re.ASCII)
MOST_SIZE = 2**63 - 1  # what a size can be anywhere on the machine
LONGEST = 40  # characters of a size; a longer one is no size, and is not shown whole


def bytes_of(text: int | str) -> int:
    """Return a number of bytes, at least 1."""
    if isinstance(text, int) and not isinstance(text, bool):
        count = text
    else:
        found = _FORM.fullmatch(text) if isinstance(text, str) and len(text) <= LONGEST else None
        count = int(float(found[1]) * _UNITS[(found[2] or "").lower()]) if found else 0
    if not 1 <= count <= MOST_SIZE:
        raise SpecError(f"{shown(text)} is not a size; write for example 64MB or 2GiB")
    return count
