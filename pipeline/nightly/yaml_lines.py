"""YAML with line numbers: what is wrong in a hand-written file is reported with the line where it stands."""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from pipeline.errors import JobError, SieveError
from pipeline.redact import redacted
from pipeline.sizes import bytes_of

T = TypeVar("T")
LARGEST_NUMBER = 1 << 62
LARGEST_FILE = 1 << 20  # bytes; a job file has a few hundred
_LONGEST_SHOWN = 80
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _LONGEST_SHOWN


class Section:
    """A mapping of a YAML file. ``name`` is where it stands, empty for the file itself."""

    def __init__(self, source: Path, node: yaml.Node, name: str = "") -> None:
        self.source, self.node, self.name = source, node, name
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{name or 'the file'} must be a mapping of names to values")
        self.items: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(key, "a name is expected here, not a list or a mapping")
            if key.value in self.items:
                raise self._error(
                    key, f"{key.value if key.value.isidentifier() else brief(key.value)} stands here twice"
                )
            self.items[key.value] = value

    def only(self, *known: str) -> None:
        """Refuse names that mean nothing here."""
        for key, _ in self.node.value:
            if key.value not in known:
                close = difflib.get_close_matches(key.value[:_LONGEST_SHOWN], known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
                raise self._error(key, f"unknown name {brief(key.value)}; {hint}")

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
        with source.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise JobError(f"{source}: is larger than {LARGEST_FILE} bytes; this is no job file")
        node = yaml.compose(content.decode("utf-8"), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}, line {mark.line + 1}" if mark else str(source)
        problem = " ".join(str(getattr(error, "problem", None) or "unreadable").split())
        raise JobError(f"{where}: not valid YAML ({problem})") from error
    except RecursionError as error:
        raise JobError(f"{source}: not valid YAML (nested too deeply)") from error
    except (OSError, ValueError) as error:
        if isinstance(error, JobError):
            raise
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
    except (LookupError, AttributeError, RecursionError) as error:  # a tag such as !!bool on what is none
        raise ValueError("cannot be understood") from error
    finally:
        loader.dispose()


def brief(value: Any) -> str:
    """Return a value for a message: a small file can stand for a value of any size.

    An address loses its credentials before it is cut: the rest of one cannot be told from other text.
    """
    return _SHORT.repr(redacted(value) if isinstance(value, str) else value)


def text(value: Any) -> str:
    """Read text; a number or a truth value is one that was not quoted."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{brief(value)} is not text; put it in quotes if it is meant so")
    if not value.isprintable():
        raise ValueError(f"{brief(value)} holds characters that are not printable")
    return value


def label(value: Any) -> str:
    """Read a label: text or a number."""
    return str(value) if type(value) in (int, float) else text(value)


def number(value: Any) -> float:
    """Read a number."""
    try:
        if isinstance(value, bool | None):
            raise ValueError
        found = float(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{brief(value)} is not a number") from None
    if not math.isfinite(found):
        raise ValueError(f"{brief(value)} is not a finite number")
    return found


def whole(smallest: int, largest: int = LARGEST_NUMBER) -> Callable[[Any], int]:
    """Read a whole number that is not below ``smallest``, nor above ``largest``."""

    def read(value: Any) -> int:
        if type(value) is not int or value < smallest:
            raise ValueError(f"{brief(value)} is not a whole number from {smallest} on")
        if value > largest:
            raise ValueError(f"{brief(value)} is above {largest}")
        return value

    return read


def flag(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{brief(value)} is neither true nor false")
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
            raise ValueError(f"{brief(value)} is not one of {', '.join(choices)}")
        return str(value)

    return read


def size(value: Any) -> int:
    """Read a number of bytes, such as 64MB."""
    if type(value) is int:
        return whole(1)(value)
    try:
        return whole(1)(bytes_of(text(value)))
    except SieveError as error:
        raise ValueError(f"{brief(value)} is not a size; write for example 64MB or 2GiB") from error
