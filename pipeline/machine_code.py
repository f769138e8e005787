"""Machine code of kernels on disk, linked into a process without Numba.

What Numba compiled is an object file: a function that takes Python objects apart and calls the loop, which refers to C
functions of Python, of NumPy and of Numba's runtime. LLVM links it; the runtime is three extension modules that do not
need the package around them. With it goes an ``Environment`` for each function, the objects that its code refers to: in
a kernel these are types of the arrays that it returns. Importing Numba takes 0.3 s of every process, LLVM alone 0.1 s,
and a kernel that Numba links 3 ms, here 1.

A file is the sha256 of what follows, a line of JSON, and the object file. It is named by the kernel, the types of its
arguments and the machine; made of something else than the kernel is now (``kernel_stamp``), it is written again.
"""

from __future__ import annotations

import builtins
import ctypes
import hashlib
import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

VERSION = 1  # of the files
# By what name code refers to functions of each of Numba's extension modules: those with _ have that name already.
_PREFIXES = {"_dynfunc": "numba_", "_helperlib": "numba_", "core.runtime._nrt_python": "NRT_"}


class CodeFile:
    """Where the machine code of a kernel for some types is kept."""

    def __init__(self, function: Callable[..., Any], stamp: str, types: str) -> None:
        assert isinstance(function, FunctionType)
        self.function, self.stamp = function, stamp
        of = hashlib.sha256(f"{machine()}\0{types}".encode()).hexdigest()[:24]
        self.name = f"{function.__module__}.{function.__qualname__}-{of}.kernel".replace("<", "").replace(">", "")

    @cached_property
    def folder(self) -> Path | None:
        """The first folder that can be written to; None if none can."""
        return next((folder for folder in folders() if _writable(folder)), None)

    def load(self) -> Callable[..., Any] | None:
        """Return the kernel, ready to be called; None if no folder has it as it is now."""
        for folder in folders():
            try:
                digest, _, content = (folder / self.name).read_bytes().partition(b"\n")
            except OSError:
                continue
            if digest == _digest(content):  # so it is as it was written
                line, _, code = content.partition(b"\n")
                head = json.loads(line)
                if (head["version"], head["stamp"]) == (VERSION, self.stamp):
                    return self._linked(head, code)
        return None

    def _linked(self, head: dict[str, Any], code: bytes) -> Callable[..., Any]:
        engine = _engine()
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        for name, types in head["environments"].items():
            place = ctypes.c_void_p.from_address(engine.get_global_value_address(name))
            place.value = id(_environment(name, types, self.function.__globals__))
        own, module = _environments[head["environment"]], sys.modules.get(self.function.__module__)
        address, doc = engine.get_function_address(head["entry"]), self.function.__doc__ or ""
        return _runtime()["_dynfunc"].make_function(module, self.function.__name__, doc, address, own, (engine,))

    def save(self, result: Any) -> None:
        """Write what Numba compiled, where that is possible: not what needs more than machine code."""
        environments = {found.env_name: found.consts for found in result._find_referenced_environments()}
        environments[result.fndesc.env_name] = result.environment.consts
        objects = [one for consts in environments.values() for one in consts]
        if self.folder is None or result.reload_init or any(not isinstance(one, np.dtype) for one in objects):
            return
        _, _, (code, _) = result.library.serialize_using_object_code()
        head = {
            "version": VERSION,
            "stamp": self.stamp,
            "entry": result.fndesc.llvm_cpython_wrapper_name,
            "environment": result.fndesc.env_name,
            "environments": {name: [one.str for one in consts] for name, consts in environments.items()},
        }
        content = json.dumps(head).encode() + b"\n" + code
        written = (
            self.folder / f".{os.getpid()}.{self.name}"
        )  # readable to whom the umask says: images have other users
        with suppress(OSError):  # of a full disk: it is compiled again next time
            try:
                written.write_bytes(_digest(content) + b"\n" + content)
                written.replace(self.folder / self.name)
            finally:
                written.unlink(missing_ok=True)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def folders() -> Iterator[Path]:
    """Yield where machine code may be: where the user says (Numba's name for it), beside bytecode, in a cache."""
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given)
        return
    yield Path(__file__).parent / "__pycache__"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))  # noqa: PTH111 - ~ if there is none
    if cache.is_absolute():
        yield cache / "svmsieve" / "kernels"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@cache
def machine() -> str:
    """Return what machine code depends on besides its kernel: the processor, what compiles, and its settings."""
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k != "NUMBA_CACHE_DIR")
    features = sorted(llvm.get_host_cpu_features().items())
    versions = sys.version, np.__version__, llvmlite.__version__, (_numba() / "_version.py").read_text()
    return repr((llvm.get_process_triple(), llvm.get_host_cpu_name(), features, versions, settings))


@cache
def _numba() -> Path:
    """Return where Numba is, without importing it."""
    found = find_spec("numba")
    assert found is not None and found.submodule_search_locations is not None
    return Path(next(iter(found.submodule_search_locations)))


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
            sys.modules[whole] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[whole])
        found[name] = sys.modules[whole]
    return found


_NDARRAY = {pickle.dumps(np.ndarray, protocol) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)}


def _class_named(address: int, data: bytes, digest: bytes) -> Any:
    """Return the class of arrays that a kernel returns, which its code has as a pickle; Numba knows exceptions."""
    if data in _NDARRAY:
        return np.ndarray
    from numba.core.serialize import _numba_unpickle  # noqa: PLC0415

    return _numba_unpickle(address, data, digest)


def _know_arrays(unpickle: int) -> None:
    """Have the C function that code asks for classes ask ``_class_named``.

    When first called it imports a module of Numba's for that, and keeps what it finds there: so for that one call there
    are other modules of these names.
    """
    if "numba" in sys.modules:
        return
    asked = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)(unpickle)
    data, names = pickle.dumps(np.ndarray, 2), ("numba", "numba.core.serialize")
    sys.modules |= {name: ModuleType(name) for name in names}
    vars(sys.modules[names[1]])["_numba_unpickle"] = _class_named
    try:
        asked(data, len(data), bytes(20))
    finally:
        for name in names:
            del sys.modules[name]


@cache
def _engine() -> Any:
    """Return a linker that knows all that kernels refer to: the functions of Numba's runtime, and exceptions."""
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


_environments: dict[str, Any] = {}  # for ever: machine code has their addresses


def _environment(name: str, types: list[str], names: dict[str, Any]) -> Any:
    if name not in _environments:
        _environments[name] = _runtime()["_dynfunc"].Environment(names)
        _environments[name].consts.extend(np.dtype(one) for one in types)
    return _environments[name]
