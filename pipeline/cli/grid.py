"""``--grid``: values of C as people write them.

    VALUE[,VALUE]...       0.01,0.1,1        trained at in ascending order, each once
    LOW:HIGH:COUNT         0.01:10:7         COUNT values from LOW to HIGH with equal ratios

An x after each number means times C_min: 10x,100x or 10x:1000x:5. Nothing else is a grid: what is half of one form and
half of the other would train at C that nobody asked for.
"""

from __future__ import annotations

import re
from typing import Any

import click

from pipeline.errors import SpecError, shown
from pipeline.spec import MOST_C

FORMS = "write 0.01,0.1,1 or 0.01:10:7 or 10x:1000x:5"
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?(x?)\s*", re.ASCII)
_COUNT = re.compile(r"\s*[0-9]{1,9}\s*", re.ASCII)


class Grid(click.ParamType):
    """Values of C: 0.01,0.1,1 or LOW:HIGH:COUNT with equal ratios; an x after a number means times C_min."""

    name = "grid"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[float, ...], bool]:
        """Read a grid; return its values and whether they are in multiples of C_min."""
        if isinstance(value, tuple):
            return value
        try:
            return read_grid(str(value))
        except SpecError as error:
            self.fail(f"{shown(value)} is not a grid ({error}); {FORMS}", param, ctx)


def read_grid(text: str) -> tuple[tuple[float, ...], bool]:
    """Return the values of a grid, and whether they are in multiples of C_min; SpecError says what is wrong."""
    if ":" in text:
        return _ratios(text.split(":"))
    count = text.count(",") + 1
    if count > MOST_C:
        raise SpecError(f"it has {count:,} values, more than {MOST_C:,}")
    values, in_c_min = _numbers(text.split(","))
    return tuple(sorted(set(values))), in_c_min


def _ratios(words: list[str]) -> tuple[tuple[float, ...], bool]:
    from pipeline.maths.eps_grid import log_grid

    if len(words) != 3:
        raise SpecError("a range has three parts, LOW:HIGH:COUNT")
    if not _COUNT.fullmatch(words[2]) or not 2 <= int(words[2]) <= MOST_C:
        raise SpecError(f"its count is a whole number from 2 to {MOST_C:,}, not {shown(words[2])}")
    (low, high), in_c_min = _numbers(words[:2])
    if not low < high:
        raise SpecError(f"a range goes from a smaller C to a larger one, not from {low:g} to {high:g}")
    return tuple(log_grid(low, high, int(words[2]))), in_c_min


def _numbers(words: list[str]) -> tuple[list[float], bool]:
    found = []
    for word in words:
        parts = _NUMBER.fullmatch(word)
        number = float(parts[1] + (parts[2] or "")) if parts else 0.0
        if parts is None or not 0 < number < float("inf"):
            raise SpecError(f"{shown(word)} is not a positive number")
        found.append((number, bool(parts[3])))
    if len({times for _, times in found}) > 1:
        raise SpecError("either all of its numbers have an x or none has")
    return [number for number, _ in found], found[0][1]
