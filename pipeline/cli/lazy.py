"""Commands that are imported when they are asked for: ``svmsieve ingest`` need not load the modules of nightly jobs.

A group knows the names of its commands and where each one is. ``--help`` of a group asks for all of them, for their
first lines; so what a module of ``pipeline.cli`` imports at its head is click and what is as light. What a command
works with (NumPy, Numba, Arrow, Dask) it imports when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import click


class Commands(MutableMapping[str, click.Command]):
    """The commands of a group by name; one that nobody has asked for yet is ``module:attribute``."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._known: dict[str, str | click.Command] = dict(homes)

    def __getitem__(self, name: str) -> click.Command:
        found = self._known[name]
        if isinstance(found, str):
            module, _, attribute = found.partition(":")
            found = self._known[name] = getattr(import_module(module), attribute)
        return found

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._known[name] = command

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class Sections(click.Group):
    """A group whose help shows its commands by what people want to do, in the order given."""

    def __init__(self, name: str, sections: Mapping[str, Mapping[str, str]], **options: Any) -> None:
        homes = {command: home for commands in sections.values() for command, home in commands.items()}
        super().__init__(name, Commands(homes), **options)
        self.sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, section by section."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list of commands for each section, all with the same indent."""
        width = max(map(len, self.commands))
        limit = formatter.width - 6 - width
        for title, names in self.sections.items():
            lines = [(name.ljust(width), self.commands[name].get_short_help_str(limit)) for name in names]
            with formatter.section(title):
                formatter.write_dl(lines)
