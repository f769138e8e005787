"""YAML with line numbers: what is wrong in a hand-written file is reported with the line where it stands.

Names are what stands there (``no`` and ``7`` are names, not a truth value and a number), and none stands twice. What a
mapping takes over from others (``<<: *these``) counts as its own, unless it says otherwise itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from pipeline.errors import SieveError
from pipeline.yaml_values import LONGEST_SHOWN, brief

T = TypeVar("T")
LARGEST_FILE = 1 << 20  # bytes; a job file has a few hundred, datasets.yaml some thousands
_MERGE = "tag:yaml.org,2002:merge"


class Section:
    """A mapping of a YAML file. ``name`` is where it stands, empty for the file itself, ``kind`` the errors raised."""

    def __init__(self, source: Path, node: yaml.Node, kind: type[SieveError], name: str = "", before: str = "") -> None:
        self.source, self.node, self.kind, self.before = source, node, kind, before
        self.keys: dict[str, yaml.Node] = {}
        self.items: dict[str, yaml.Node] = {}
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{name or 'the file'} must be a mapping of names to values")
        for key, value in self._pairs(node):
            if key.value in self.items:
                raise self._error(
                    key, f"{key.value if key.value.isidentifier() else brief(key.value)} stands here twice"
                )
            self.keys[key.value], self.items[key.value] = key, value
        for key, value in self._taken_over(node, {id(node)}):
            self.keys.setdefault(key.value, key)
            self.items.setdefault(key.value, value)

    def only(self, *known: str) -> None:
        """Refuse names that mean nothing here."""
        for name, key in self.keys.items():
            if name not in known:
                close = difflib.get_close_matches(name[:LONGEST_SHOWN], known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
                raise self._error(key, f"unknown name {brief(name)}; {hint}")

    def take(self, name: str, read: Callable[[Any], T], default: T | None = None) -> T:
        """Return a value as ``read`` understands it; without a default it must be there."""
        if name not in self.items:
            if default is None:
                raise self._error(self.node, f"{name} is missing")
            return default
        try:
            return read(_plain(self.items[name]))
        except (ValueError, TypeError, OverflowError) as error:
            raise self.error(name, " ".join(str(error).split())) from error

    def optional(self, name: str, read: Callable[[Any], T]) -> T | None:
        """Return a value that may be left out."""
        return self.take(name, read) if name in self.items else None

    def section(self, name: str, before: str = "") -> Section | None:
        """Return a mapping inside this one; ``before`` comes before what is wrong in it."""
        return Section(self.source, self.items[name], self.kind, name, before) if name in self.items else None

    def error(self, name: str, problem: str) -> SieveError:
        """Return the error for a value."""
        return self._error(self.items.get(name, self.node), f"{name}: {problem}")

    def _error(self, node: yaml.Node, problem: str) -> SieveError:
        return self.kind(f"{self.source}, line {node.start_mark.line + 1}: {self.before}{problem}")

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield the names and values that a mapping has itself."""
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a name is expected here, not a list or a mapping")
            if key.tag != _MERGE:
                yield key, value

    def _taken_over(self, node: yaml.MappingNode, seen: set[int]) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield the names and values of the mappings that one names with <<, the first of a name counts.

        Each mapping is gone through once: a second time it has nothing to add, and a file can name one without end.
        """
        for key, value in node.value:
            if key.tag == _MERGE:
                for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if not isinstance(each, yaml.MappingNode):
                        raise self._error(value, "<< takes a mapping, or a list of them")
                    if id(each) not in seen:
                        seen.add(id(each))
                        yield from self._pairs(each)
                        yield from self._taken_over(each, seen)


def read_yaml(path: str | Path, kind: type[SieveError], example: str, where: str = "the path") -> Section:
    """Read a YAML file whose top level is a mapping.

    Errors are of a kind, and say where to find an ``example`` and in what to look for the reason (``where``).
    """
    source = Path(path)
    try:
        with source.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
        fits = len(content) <= LARGEST_FILE
        node = yaml.compose(content.decode("utf-8"), Loader=yaml.SafeLoader) if fits else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}, line {mark.line + 1}" if mark else str(source)
        problem = " ".join(str(getattr(error, "problem", None) or getattr(error, "reason", "unreadable")).split())
        raise kind(f"{place}: not valid YAML ({problem})") from error
    except RecursionError as error:
        raise kind(f"{source}: not valid YAML (nested too deeply)") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise kind(f"{source}: cannot be read ({reason}); check {where}") from error
    if node is None:
        problem = "the file is empty" if fits else f"is larger than {LARGEST_FILE} bytes"
        raise kind(f"{source}: {problem}; {example}")
    return Section(source, node, kind)


def _plain(node: yaml.Node) -> Any:
    """Return a node's value; text such as 1e-4, which YAML 1.1 does not take for a number, is read by its reader."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except yaml.YAMLError as error:
        raise ValueError(getattr(error, "problem", None) or "cannot be understood") from error
    except (LookupError, AttributeError, RecursionError) as error:  # a tag such as !!bool on what is none
        raise ValueError("cannot be understood") from error
    finally:
        loader.dispose()
