"""BLAS and LAPACK with one thread: more give other bits, and spin where others wait for the cores.

SciPy's own library is slow to import, and few runs solve a system. So it comes with the first one, inside a scope that
has limited only the libraries that were there when it began: who brings it limits it for the rest of that scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from threadpoolctl import threadpool_limits

_scopes: list[ExitStack] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS and LAPACK use one thread, those that are loaded meanwhile included."""
    with ExitStack() as scope:
        scope.enter_context(threadpool_limits(limits=1))
        _scopes.append(scope)
        try:
            yield
        finally:
            _scopes.remove(scope)


@cache
def dposv() -> Callable[..., Any]:
    """Return LAPACK's solver of positive definite systems."""
    from scipy.linalg import lapack  # noqa: PLC0415

    for scope in _scopes:
        scope.enter_context(threadpool_limits(limits=1))
    solver: Callable[..., Any] = lapack.dposv
    return solver
