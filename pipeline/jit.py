"""Numba as this package uses it: compiled on first call, without the GIL, cached on disk where one can write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a hot loop. Where no cache directory is writable (a read-only image) it compiles in memory."""
    try:
        return numba.njit(function, nogil=True, cache=True)
    except RuntimeError:  # "no locator available": neither __pycache__ nor the user's cache can be written
        return numba.njit(function, nogil=True)


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a helper that kernels call; LLVM inlines it where that pays."""
    return numba.njit(function, nogil=True)
