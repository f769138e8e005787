"""Numba's cache of compiled kernels, made to notice changed helpers and to say that it has to compile.

Numba's own watches the file of a kernel alone: a helper in another file may change, and the kernel goes on with the old
one. Here the entry of a kernel also carries a stamp of all that its machine code is made of: its bytecode, the numbers
it takes from modules, and those of every helper it calls. That costs some 70 microseconds a kernel, when it is first
called.

Numba's own also fills its tables of all that can be compiled before it looks into the cache, and imports half of itself
for that: 0.13 s a process. Machine code from the cache needs none of it, and the compiler fills them by itself.

Many kernels to compile are half a minute of silence on a first use. Whoever listens to the process (``events``) hears
of it once, as soon as a second has gone by; worker processes have no listener, and stay silent.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import rtsys
from numba.extending import _Intrinsic

from pipeline.events import Note, announce

SILENT_SECONDS = 1.0  # of compiling before it is worth a line: one new kernel takes 0.1 to 1 s, all of a path 10 to 30
ONCE = "compiling (first use of this version on this machine, once; about half a minute)"
ALWAYS = "compiling (about half a minute, and again the next time: no cache can be written; set NUMBA_CACHE_DIR)"
PACKAGE = __name__.partition(".")[0]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


class KernelCache(FunctionCache):
    """The cache of one kernel."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._begun: float | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for these types if it was made of what the kernel is made of now."""
        if self._begun is None:  # not before the first call: helpers may stand below the kernel
            stamp = (self._impl.locator.get_source_stamp(), stamp_of(self._py_func))
            self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, stamp)
        self._begun = time.monotonic()
        rtsys.initialize(target_context)  # all that machine code needs
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
        if found is None:
            _compiles(ONCE)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled."""
        _compiled(self._begun)
        super().save_overload(sig, data)


class NoCache(NullCache):
    """For where no cache can be written: compiled in memory, by every process."""

    def __init__(self) -> None:
        self._begun: float | None = None

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Find nothing."""
        self._begun = time.monotonic()
        _compiles(ALWAYS)

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Keep nothing."""
        _compiled(self._begun)


class _Silence:
    """How many seconds this process has compiled, and whether it was said."""

    seconds = 0.0
    over = False


def _compiles(text: str) -> None:
    if not _Silence.over and _Silence.seconds >= SILENT_SECONDS:
        _Silence.over = announce(Note(text))


def _compiled(begun: float | None) -> None:
    if begun is not None:
        _Silence.seconds += time.monotonic() - begun


def stamp_of(function: Callable[..., Any]) -> str:
    """Return a hash of what a kernel's machine code is made of, as far as it is ours."""
    found = hashlib.sha256()
    for part in _of_function(function, set()):
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
    if isinstance(value, Dispatcher):
        yield repr(sorted(value.targetoptions.items()))
        yield from _of_function(value.py_func, seen)
    elif isinstance(value, _Intrinsic):
        yield from _of_function(value._defn, seen)
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
