"""What machine code is made of: functions that are to be compiled, and a hash that changes when they have to be again.

That of a kernel is made of its bytecode, the numbers that it takes from modules, and those of every helper it calls, in
whichever file. The hash costs some 70 microseconds a kernel, when that is first called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

PACKAGE = __name__.partition(".")[0]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


class Compilable:
    """A function that is compiled, with options of Numba's."""

    def __init__(self, function: Callable[..., Any], **options: bool) -> None:
        self.function, self.options = function, options
        self.__module__, self.__doc__ = function.__module__, function.__doc__
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__

    def __reduce__(self) -> str:
        """Travel to other processes by name, as functions do."""
        return self.__qualname__


class Intrinsic(Compilable):
    """A helper whose machine code is given instruction by instruction: what ``numba.extending.intrinsic`` takes."""


def stamp_of(kernel: Compilable) -> str:
    """Return a hash of what a kernel's machine code is made of, as far as it is ours."""
    found = hashlib.sha256()
    for part in _of_value(kernel, set(), set()):
        found.update(part.encode() + b"\0")
    return found.hexdigest()


def _of_function(function: Any, seen: set[int]) -> Iterator[str]:
    """Yield a function's bytecode, its constants, and what its names stand for in its module."""
    if id(function) in seen:
        return
    seen.add(id(function))
    names: set[str] = set()
    yield from _of_code(function.__code__, names)
    for name in sorted(names & function.__globals__.keys()):
        yield name
        yield from _of_value(function.__globals__[name], names, seen)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    for value in (*(function.__defaults__ or ()), *cells):
        yield from _of_value(value, names, seen)


def _of_code(code: CodeType, names: set[str]) -> Iterator[str]:
    names.update(code.co_names)
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant, names)
        else:
            yield repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)


def _of_value(value: Any, names: set[str], seen: set[int]) -> Iterator[str]:
    """Yield what a name stands for: a helper by its code, a number by its value, a module of ours by what is used."""
    if isinstance(value, Compilable):
        yield repr(sorted(value.options.items()))
        yield from _of_function(value.function, seen)
    elif isinstance(value, FunctionType):
        yield from _of_function(value, seen)
    elif isinstance(value, ModuleType):
        if value.__name__.partition(".")[0] == PACKAGE:
            for name in sorted(names & vars(value).keys()):
                yield name
                yield from _of_value(vars(value)[name], names, seen)
    elif isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, tuple):
        for item in value:
            yield from _of_value(item, names, seen)
    else:
        yield type(value).__name__
