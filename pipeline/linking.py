"""Machine code linked into a process without Numba, which takes what is private to Numba: nowhere else is it known.

Machine code refers to C functions of Python, of NumPy and of Numba's runtime. LLVM links it; the runtime is three
extension modules that do not need the package around them. With it goes an ``Environment`` for each function, the
objects that its code refers to: in a kernel these are types of the arrays that it returns. Importing Numba takes 0.3 s
of every process, LLVM alone 0.1 s, and a kernel that Numba links 3 ms, here 1.

What is private may be another thing in the next release, and a C function that is called wrongly ends the process. So
code is linked here only for releases that tests/test_jit.py has passed with, where all these parts are found, and where
all that the code refers to is. Everything else is ``UnlinkableError``, and left to Numba (``compiling``).
"""

from __future__ import annotations

import builtins
import ctypes
import importlib
import pickle
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import llvmlite.binding as llvm
import numpy as np

TESTED = (0, 60), (0, 68)  # releases of Numba, from and to
# By what name code refers to functions of each of Numba's extension modules: those with _ have that name already.
_PREFIXES = {"_dynfunc": "numba_", "_helperlib": "numba_", "core.runtime._nrt_python": "NRT_"}
# A symbol in an object file of ELF's, of 64 bits.
_SYMBOL = np.dtype([("name", "<u4"), ("kind", "<u2"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")])
_NDARRAY = {pickle.dumps(np.ndarray, protocol) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)}
_environments: dict[str, Any] = {}  # for ever: machine code has their addresses


class UnlinkableError(Exception):
    """Code that only Numba itself can load, or no code at all can be linked without it."""


def linked_entry(function: FunctionType, code: bytes, head: dict[str, Any]) -> Callable[..., Any]:
    """Return the entry of an object file for a function, ready to be called; ``head`` has the names in it."""
    engine = linker()
    if missing := [name for name in head["needs"] if llvm.address_of_symbol(name) is None]:
        raise UnlinkableError(f"{function.__name__} needs {missing[0]}")  # which would end the process
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    for name, types in head["environments"].items():
        place = ctypes.c_void_p.from_address(engine.get_global_value_address(name))
        place.value = id(_environment(name, types, function.__globals__))
    own, module = _environments[head["environment"]], sys.modules.get(function.__module__)
    address, doc = engine.get_function_address(head["entry"]), function.__doc__ or ""
    return _runtime()["_dynfunc"].make_function(module, function.__name__, doc, address, own, (engine,))


def needs(code: bytes) -> list[str]:
    """Return the names of what an object file refers to and does not have."""
    sections = {section.name(): section.data() for section in llvm.ObjectFileRef.from_data(code).sections()}
    symbols, names = np.frombuffer(sections[b".symtab"], _SYMBOL), sections[b".strtab"]
    starts = symbols["name"][(symbols["section"] == 0) & (symbols["name"] > 0)]
    return [names[start : names.index(b"\0", start)].decode() for start in starts]


@cache
def linker() -> Any:
    """Return a linker that knows all that kernels refer to: the functions of Numba's runtime, and exceptions."""
    release = re.search(r'"version": *"(\d+)\.(\d+)', numba_version())
    if release is None or not TESTED[0] <= (int(release[1]), int(release[2])) <= TESTED[1]:
        raise UnlinkableError("a release of Numba that was not tested")
    if llvm.get_object_format() != "ELF":
        raise UnlinkableError("object files whose symbols are unknown here")
    try:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        for name, module in _runtime().items():
            for function, address in module.c_helpers.items():
                llvm.add_symbol(function if function.startswith("_") else _PREFIXES[name] + function, address)
        _know_arrays(_runtime()["_helperlib"].c_helpers["unpickle"])
        llvm.add_symbol("_Py_NoneStruct", id(None))
        for error in vars(builtins).values():
            if isinstance(error, type) and issubclass(error, BaseException):
                llvm.add_symbol(f"PyExc_{error.__name__}", id(error))
        target = llvm.Target.from_triple(llvm.get_process_triple())
        return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target.create_target_machine(jit=True))
    except (AttributeError, ImportError, KeyError, TypeError) as error:  # moved, or another thing
        raise UnlinkableError(f"private parts of Numba: {error}") from error


@cache
def numba_version() -> str:
    """Return what Numba says of its version, without importing it: "" if that is not where it was."""
    try:
        return (_numba() / "_version.py").read_text()
    except OSError:
        return ""


def _numba() -> Path:
    found = find_spec("numba")
    return Path(next(iter(found.submodule_search_locations or ["."] if found else ["."])))


@cache
def _runtime() -> dict[str, ModuleType]:
    """Load the C side of Numba. A package imported later finds these modules as its own."""
    found = {}
    for name in _PREFIXES:
        whole = f"numba.{name}"
        if whole not in sys.modules:
            file = _numba() / f"{name.replace('.', '/')}{EXTENSION_SUFFIXES[0]}"
            spec = spec_from_file_location(whole, file)
            assert spec is not None and spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules[whole] = module
        found[name] = sys.modules[whole]
    return found


def _class_named(address: int, data: bytes, digest: bytes) -> Any:
    """Return the class of arrays that a kernel returns, which its code has as a pickle; Numba knows exceptions."""
    if data in _NDARRAY:
        return np.ndarray
    from numba.core.serialize import _numba_unpickle  # noqa: PLC0415

    return _numba_unpickle(address, data, digest)


def _know_arrays(unpickle: int) -> None:
    """Have the C function that code asks for classes ask ``_class_named``.

    When first called it imports a module of Numba's for that, by the ``__import__`` that its caller knows, and keeps
    what it finds there: so for that one call there is another of this name. Other threads may import Numba meanwhile.
    """
    if "numba" in sys.modules:
        importlib.import_module("numba")  # until it is there: importing parts of it meanwhile would be a deadlock
        return
    module = ModuleType(name := "numba.core.serialize")
    vars(module)["_numba_unpickle"] = _class_named
    asked = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)(unpickle)
    known = {"__import__": lambda *_: sys.modules.setdefault(name, module)}
    data = pickle.dumps(np.ndarray, 2)
    try:
        eval("asked(*given)", {"__builtins__": known, "asked": asked, "given": (data, len(data), bytes(20))})  # noqa: S307
    finally:
        if sys.modules.get(name) is module:
            del sys.modules[name]


def _environment(name: str, types: list[str], names: dict[str, Any]) -> Any:
    if name not in _environments:
        _environments[name] = _runtime()["_dynfunc"].Environment(names)
        _environments[name].consts.extend(np.dtype(one) for one in types)
    return _environments[name]
