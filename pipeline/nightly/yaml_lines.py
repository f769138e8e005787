"""YAML with line numbers: what is wrong in a hand-written file is reported with the line where it stands."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from pipeline.errors import JobError, SieveError

T = TypeVar("T")


class Section:
    """A mapping of a YAML file. ``name`` is where it stands, empty for the file itself."""

    def __init__(self, source: Path, node: yaml.Node, name: str = "") -> None:
        self.source, self.node, self.name = source, node, name
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{name or 'the file'} must be a mapping of names to values")
        self.items: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if key.value in self.items:
                raise self._error(key, f"{key.value} stands here twice")
            self.items[key.value] = value

    def only(self, *known: str) -> None:
        """Refuse names that mean nothing here."""
        for key, _ in self.node.value:
            if key.value not in known:
                close = difflib.get_close_matches(str(key.value), known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
                raise self._error(key, f"unknown name {key.value!r}; {hint}")

    def take(self, name: str, read: Callable[[Any], T], default: T | None = None) -> T:
        """Return a value as ``read`` understands it; without a default it must be there."""
        if name not in self.items:
            if default is None:
                raise self._error(self.node, f"{name} is missing")
            return default
        try:
            return read(_plain(self.items[name]))
        except (ValueError, TypeError) as error:
            raise self.error(name, str(error)) from error

    def optional(self, name: str, read: Callable[[Any], T]) -> T | None:
        """Return a value that may be left out."""
        return self.take(name, read) if name in self.items else None

    def section(self, name: str) -> Section | None:
        """Return a mapping inside this one."""
        return Section(self.source, self.items[name], name) if name in self.items else None

    def error(self, name: str, problem: str) -> JobError:
        """Return the error for a value."""
        return self._error(self.items.get(name, self.node), f"{name}: {problem}")

    def _error(self, node: yaml.Node, problem: str) -> JobError:
        return JobError(f"{self.source}, line {node.start_mark.line + 1}: {problem}")


def read_yaml(path: str | Path) -> Section:
    """Read a YAML file whose top level is a mapping."""
    source = Path(path)
    try:
        node = yaml.compose(source.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}, line {mark.line + 1}" if mark else str(source)
        raise JobError(f"{where}: not valid YAML ({getattr(error, 'problem', None) or 'unreadable'})") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise JobError(f"{source}: cannot be read ({reason}); check the path") from error
    if node is None:
        raise JobError(f"{source}: the file is empty; deploy/job.yaml is an example")
    return Section(source, node)


def _plain(node: yaml.Node) -> Any:
    """Return a node's value; text such as 1e-4, which YAML 1.1 does not take for a number, is read by its reader."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except yaml.YAMLError as error:
        raise ValueError(getattr(error, "problem", None) or "cannot be understood") from error
    finally:
        loader.dispose()


def text(value: Any) -> str:
    """Read text; a number or a truth value is one that was not quoted."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not text; put it in quotes if it is meant so")
    return value


def number(value: Any) -> float:
    """Read a number."""
    try:
        if isinstance(value, bool | None):
            raise ValueError
        return float(value)
    except (ValueError, TypeError):
        raise ValueError(f"{value!r} is not a number") from None


def whole(smallest: int) -> Callable[[Any], int]:
    """Read a whole number that is not below ``smallest``."""

    def read(value: Any) -> int:
        if type(value) is not int or value < smallest:
            raise ValueError(f"{value!r} is not a whole number from {smallest} on")
        return value

    return read


def flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
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
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    return read


def reread(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Turn svmsieve's own errors into those of a reader."""

    def wrapped(value: Any) -> T:
        try:
            return read(value)
        except SieveError as error:
            raise ValueError(str(error)) from error

    return wrapped
