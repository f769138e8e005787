"""Shards that several files share: many tiny files of a day become few shards, and each can still be replaced alone.

A shard is shared by pieces: (file, rows), in the order of its rows. The rows of a file that came again are ``leaving``
the shards that it shares. A change of shards is written down before it becomes visible (``renaming``: the new shard,
what it replaces, its pieces); whether it happened is then read off the manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Any

from pipeline.dataclass import dataclass

FilePart = tuple[str, int]


@dataclass(frozen=True)
class Renamed:
    """A shard that replaces others."""

    was: tuple[str, ...]
    pieces: tuple[FilePart, ...]


@dataclass
class Shared:
    """Who shares what."""

    pieces: dict[str, tuple[FilePart, ...]] = field(default_factory=dict)
    leaving: dict[str, tuple[str, ...]] = field(default_factory=dict)
    renaming: dict[str, Renamed] = field(default_factory=dict)

    def leave(self, shard: str, name: str) -> bool:
        """Have a file's rows leave a shard; return whether none would be left of it."""
        files = {file for file, _ in self.pieces[shard]}
        leaving = {*self.leaving.get(shard, ()), name}
        if files <= leaving:
            self.forget([shard])
            return True
        self.leaving[shard] = tuple(sorted(leaving))
        return False

    def ranges(self, shard: str) -> list[tuple[int, int]]:
        """Return which rows of a shard leave it."""
        found, first = [], 0
        for name, rows in self.pieces[shard]:
            if name in self.leaving[shard]:
                found.append((first, first + rows))
            first += rows
        return found

    def plan(self, merged: Mapping[str, Collection[str]], owned: Mapping[str, FilePart]) -> None:
        """Write down what replaces what; ``owned`` are the file and the rows of shards that are one file's."""
        for new, was in merged.items():
            pieces = [piece for name in was for piece in self.pieces.get(name) or (owned[name],)]
            leaving = {name for shard in was for name in self.leaving.get(shard, ())}
            kept = tuple(piece for piece in pieces if piece[0] not in leaving)
            self.renaming[new] = Renamed(tuple(was), kept)

    def renamed(self, there: Collection[str]) -> dict[str, str]:
        """End a change of shards; return {old name: new name}, nothing if it did not happen."""
        names: dict[str, str] = {}
        for new, change in self.renaming.items():
            if new in there:
                names |= dict.fromkeys(change.was, new)
                self.forget(change.was)
                if len({file for file, _ in change.pieces}) > 1:
                    self.pieces[new] = change.pieces
        self.renaming = {}
        return names

    def forget(self, shards: Iterable[str]) -> None:
        """Note that shards are gone."""
        for name in shards:
            self.pieces.pop(name, None)
            self.leaving.pop(name, None)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        renaming = {new: {"was": change.was, "pieces": change.pieces} for new, change in self.renaming.items()}
        return {"pieces": self.pieces, "leaving": self.leaving, "renaming": renaming}

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> Shared:
        """Read what ``to_json`` wrote; ValueError or TypeError where it is something else."""
        return cls(
            {shard: _pieces(pieces) for shard, pieces in item["pieces"].items()},
            {shard: _texts(names) for shard, names in item["leaving"].items() if item["pieces"][shard]},
            {new: Renamed(_texts(it["was"]), _pieces(it["pieces"])) for new, it in item["renaming"].items()},
        )


def _pieces(item: Any) -> tuple[FilePart, ...]:
    found = tuple((name, rows) for name, rows in item)
    if not all(isinstance(name, str) and type(rows) is int and rows > 0 for name, rows in found):
        raise TypeError("a piece is none")
    return found


def _texts(item: Any) -> tuple[str, ...]:
    if not isinstance(item, list) or not all(isinstance(name, str) for name in item):
        raise TypeError("a list of names is none")
    return tuple(item)
