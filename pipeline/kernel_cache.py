"""Numba's cache of compiled kernels, made to notice changed helpers and to say that it has to compile.

Numba's own watches the file of a kernel alone: a helper in another file may change, and the kernel goes on with the old
one. Here the entry of a kernel also carries a stamp of all that its machine code is made of: its bytecode, the numbers
it takes from modules, and those of every helper it calls. That costs some 70 microseconds a kernel, when it is first
called.

Numba's own also makes ready for compiling before it looks into the cache: it fills its tables of all that can be
compiled, importing half of itself, compiles its runtime, and parses the code of each kernel that others may be linked
with. That is 0.25 s of a process that compiles nothing. Machine code from the cache needs nothing but the addresses of
the runtime's functions; the compiler does the rest by itself, and asks for what it links.

Many kernels to compile are half a minute of silence on a first use. Whoever listens to the process (``events``) hears
of it once, as soon as a second has gone by; worker processes have no listener, and stay silent.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import _nrt_python
from numba.extending import _Intrinsic

from pipeline.events import Note, announce

SILENT_SECONDS = 1.0  # of compiling before it is worth a line: one new kernel takes 0.1 to 1 s, all of a path 10 to 30
ONCE = "compiling (first use of this version on this machine, once; about half a minute)"
ALWAYS = "compiling (about half a minute, and again the next time: no cache can be written; set NUMBA_CACHE_DIR)"
PACKAGE = __name__.partition(".")[0]
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


class _Compiled(CompileResultCacheImpl):
    """A compiled kernel, as it is kept."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Return the kernel, ready to be called; its LLVM code is parsed when one is compiled that calls it."""
        (name, kind, (machine_code, bitcode)), described, *others = payload
        engine = target_context.codegen()._engine
        engine._defined_symbols.add(described.llvm_cpython_wrapper_name)
        found = super().rebuild(target_context, ((name, kind, (machine_code, _nothing())), described, *others))

        @cache
        def for_linking() -> Any:
            module = llvm.parse_bitcode(bitcode)
            engine._load_defined_symbols(module)
            return module

        found.library._get_module_for_linking = for_linking
        return found


@cache
def _nothing() -> bytes:
    """Return the bitcode of an empty module."""
    code: bytes = llvm.parse_assembly("").as_bitcode()
    return code


@cache
def _make_runtime_known() -> None:
    """Tell the linker where the functions of Numba's runtime are."""
    for name, address in _nrt_python.c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


class KernelCache(FunctionCache):
    """The cache of one kernel."""

    _impl_class = _Compiled

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._begun: float | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for these types if it was made of what the kernel is made of now."""
        if self._begun is None:  # not before the first call: helpers may stand below the kernel
            stamp = (self._impl.locator.get_source_stamp(), stamp_of(self._py_func))
            self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, stamp)
        self._begun = time.monotonic()
        _make_runtime_known()
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
