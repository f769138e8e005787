"""The standard library's ``dataclass`` without what makes it slow to import.

Until Python 3.13 it compiles six methods of each class, one by one: a millisecond a class, 0.1 s of every command that
trains. Only ``__init__`` has to be compiled to be fast; the others are the same functions for all classes. Fields,
``replace``, ``asdict`` and what type checkers and editors know of a class are the standard library's.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, fields
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from dataclasses import dataclass as _standard

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, kw_only=False):  # noqa: A002 - the standard library's names
        """Add ``__init__`` and, as asked, ``__repr__``, ``__eq__``, ``__hash__``, and refusals to be changed."""

        def made(cls):
            _standard(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
            cls._shown = [field.name for field in fields(cls) if field.repr]
            cls._compared = [field.name for field in fields(cls) if field.compare]
            cls.__init__ = _init(cls, frozen)
            own = vars(cls)
            if frozen:
                cls.__setattr__, cls.__delattr__ = _refuse_to_set, _refuse_to_delete
            if repr and "__repr__" not in own:
                cls.__repr__ = _repr
            if eq and "__eq__" not in own:
                cls.__eq__ = _eq
                cls.__hash__ = own.get("__hash__") or (_hash if frozen else None)
            return cls

        return made if cls is None else made(cls)


def _init(cls: Any, frozen: bool) -> Any:
    """Compile ``__init__(self, field, ...)``, which sets all fields and calls ``__post_init__``."""
    by_place: list[str] = []
    by_name: list[str] = []
    lines = []
    names: dict[str, Any] = {"_new": _NEW, "_set": object.__setattr__}
    for field in fields(cls):
        name = value = field.name
        default = ""
        if field.default_factory is not MISSING:
            names[f"_of_{name}"], default = field.default_factory, "=_new"
            value = f"_of_{name}() if {name} is _new else {name}"
        elif field.default is not MISSING:
            names[f"_of_{name}"], default = field.default, f"=_of_{name}"
        if not field.init:  # __post_init__ sets it
            continue
        (by_name if field.kw_only else by_place).append(name + default)
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]), names)  # noqa: S102
    init = names["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {field.name: field.type for field in fields(cls) if field.init} | {"return": None}
    return init


_NEW = object()  # stands for a value that is made anew for each object (``default_factory``)


def _values(one: Any, names: list[str]) -> tuple[Any, ...]:
    return tuple([getattr(one, name) for name in names])


def _repr(self: Any) -> str:
    shown = [f"{name}={getattr(self, name)!r}" for name in self._shown]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return _values(self, self._compared) == _values(other, self._compared)


def _hash(self: Any) -> int:
    return hash(_values(self, self._compared))


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
