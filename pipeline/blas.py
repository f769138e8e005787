"""BLAS and LAPACK with one thread: more give other bits, and spin where others wait for the cores.

SciPy's own library comes with the first system that is solved, inside a scope that has limited only the libraries that
were there when it began: who brings it limits it for the rest of that scope. ``scipy.linalg`` takes 0.2 s to import, as
long as a small run solves, for two functions of its compiled modules: these are loaded by themselves.

Finding the libraries of a process takes 5 ms, more than a small run: they are looked for again only when the loader has
loaded others since.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

_scopes: list[ExitStack] = []


class _Loaded(ctypes.Structure):
    """What ``dl_iterate_phdr`` says of a library; ``adds`` counts all that were ever loaded."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("count", ctypes.c_uint16),
        ("adds", ctypes.c_ulonglong),
        ("subs", ctypes.c_ulonglong),
    )


_Told = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Loaded), ctypes.c_size_t, ctypes.POINTER(ctypes.c_ulonglong))


def _take(info: Any, size: int, out: Any) -> int:
    out[0] = info[0].adds
    return 1  # the first library tells


_take_adds = _Told(_take)


def _loaded() -> int:
    """Return how many libraries this process has ever loaded: 30 microseconds."""
    found = ctypes.c_ulonglong()
    ctypes.CDLL(None).dl_iterate_phdr(_take_adds, ctypes.byref(found))
    return found.value


@lru_cache(1)
def _controller(loaded: int) -> ThreadpoolController:
    """Return what limits the libraries that there are when so many have been loaded."""
    del loaded
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS and LAPACK use one thread, those that are loaded meanwhile included."""
    with ExitStack() as scope:
        scope.enter_context(_controller(_loaded()).limit(limits=1))
        _scopes.append(scope)
        try:
            yield
        finally:
            _scopes.remove(scope)


@cache
def dposv() -> Callable[..., Any]:
    """Return LAPACK's solver of positive definite systems."""
    solver: Callable[..., Any] = _compiled("_flapack", "scipy.linalg.lapack").dposv
    return solver


@cache
def dsymv() -> Callable[..., Any]:
    """Return BLAS' product of a symmetric matrix, of which it reads one triangle, and a vector."""
    product: Callable[..., Any] = _compiled("_fblas", "scipy.linalg.blas").dsymv
    return product


def _compiled(name: str, public: str) -> Any:
    """Return a compiled module of SciPy's, its library limited for the rest of the scopes that there are.

    A SciPy that is built otherwise has it under its public name only.
    """
    import scipy  # noqa: PLC0415 - not before a system is solved

    spec = PathFinder.find_spec(f"scipy.linalg.{name}", [str(Path(scipy.__file__).parent / "linalg")])
    if spec is None or spec.loader is None:
        found = import_module(public)
    else:
        found = module_from_spec(spec)
        spec.loader.exec_module(found)
    for scope in _scopes:
        scope.enter_context(_controller(_loaded()).limit(limits=1))
    return found
