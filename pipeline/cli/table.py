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
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for line in textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False):
        say(line)


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], right: Container[int] = ()) -> None:
    """Print rows under a header, columns as wide as they need to be; those in ``right`` flush right."""
    widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
    for row in (header, *rows):
        cells = [c.rjust(w) if k in right else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        say(("  " + "  ".join(cells)).rstrip())
    sys.stdout.flush()
