"""Plain lines and tables on stdout."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Container, Sequence

import click


def say(text: str, err: bool = False) -> None:
    """Print one line, whatever is in the names and messages that it is made of."""
    click.echo("".join(c if c.isprintable() else "?" for c in text), err=err)


def say_wrapped(text: str, indent: str = "  ") -> None:
    """Print a sentence in lines that fit the terminal, a path whole; where there is no terminal, in one line."""
    width = _line()
    for line in textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False):
        say(line)


def say_facts(name: object, facts: Sequence[str]) -> None:
    """Print ``name: fact, fact`` in lines that fit the terminal, each fact whole; where there is none, in one line."""
    line, *more = f"{name}:", *(f"{fact}," for fact in facts[:-1]), facts[-1]
    for fact in more:
        if len(line) + 1 + len(fact) <= _line():
            line += f" {fact}"
        else:
            say(line)
            line = f"  {fact}"
    say(line)


def table(
    header: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    right: Container[int] = (),
    prose: bool = False,
    spare: Sequence[str] = (),
) -> None:
    """Print rows under a header, columns as wide as they need to be; those in ``right`` flush right.

    If the terminal (80 columns where there is none) is too narrow, the columns called ``spare`` are left out, one after
    the other; a last column that is ``prose`` then has its text below each row.
    """
    for name in spare:
        if _width(header, rows) <= _terminal():
            break
        k = header.index(name)
        header, *rows = ((*row[:k], *row[k + 1 :]) for row in (header, *rows))
        right = [j - (j > k) for j in range(len(header) + 1) if j in right and j != k]
    if prose and sys.stdout.isatty() and _width(header, rows) > _terminal():
        _folded(header, rows, right)
        return
    widths = _widths(header, rows)
    for row in (header, *rows):
        say(_aligned(row, widths, right))
    sys.stdout.flush()


def _folded(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: Container[int]) -> None:
    """Print all columns but the last as a table, and the last below each row."""
    widths = _widths(header, rows)[:-1]
    say(_aligned(header[:-1], widths, right))
    for row in rows:
        say(_aligned(row[:-1], widths, right))
        say_wrapped(f"    {row[-1]}", indent="    ")
    sys.stdout.flush()


def _aligned(row: Sequence[str], widths: Sequence[int], right: Container[int]) -> str:
    cells = [c.rjust(w) if k in right else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
    return ("  " + "  ".join(cells)).rstrip()


def _widths(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]


def _width(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> int:
    return sum(_widths(header, rows)) + 2 * len(header)


def _line() -> int:
    """Return how long a line may be: a file has it whole."""
    return _terminal() if sys.stdout.isatty() else sys.maxsize


def _terminal() -> int:
    return shutil.get_terminal_size().columns
