"""What a page is made of: sections, figures with the numbers under them, tables. A template makes HTML of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from pipeline.dataclass import dataclass
from pipeline.draw.canvas import HEIGHT, WIDTH, Draw


@dataclass(frozen=True)
class PageTable:
    """Rows of text under a header; all columns but the first ``names`` hold numbers."""

    caption: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    names: int = 0


@dataclass(frozen=True)
class Figure:
    """A figure that is yet to be drawn, what it shows, and its numbers."""

    title: str
    description: str
    draw: Draw
    table: PageTable
    width: float = WIDTH
    height: float = HEIGHT


@dataclass(frozen=True)
class Command:
    """A command line, and what it is for."""

    what: str
    line: str


@dataclass
class PageSection:
    """A part of a page: what is to be said first, figures, tables, commands; ``missing`` says what is not there."""

    heading: str
    lead: str = ""
    figures: list[Figure] = field(default_factory=list)
    tables: list[PageTable] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """A page: its title, a verdict of one line, whether that is good, and sections."""

    title: str
    verdict: str
    good: bool
    sections: Sequence[PageSection]
    made_by: str


def number(x: float | int | None, digits: int = 4) -> str:
    """Return a number for a table; what is not defined is a dash."""
    if x is None or (isinstance(x, float) and not math.isfinite(x)):
        return "–"
    return f"{x:,}" if isinstance(x, int) else f"{x:.{digits}g}"


def share(x: float | None) -> str:
    """Return a share in per cent."""
    return "–" if x is None or not math.isfinite(x) else f"{x:.1%}"
