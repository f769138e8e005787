"""Numba as this package uses it: compiled on first call, without the GIL, cached on disk where one can write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pipeline.kernel_cache import KernelCache, NoCache

# Nobody calls kernels from C: the entries for that would be a twentieth of the time that compiling takes.
_OPTIONS = {"nogil": True, "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a hot loop. Where no cache directory is writable (a read-only image) it compiles in memory."""
    compiled = numba.njit(function, **_OPTIONS)
    compiled._compilation_chain_init_hook = _nothing
    try:
        compiled._cache = KernelCache(function)
    except RuntimeError:  # "no locator available": neither __pycache__ nor the user's cache can be written
        compiled._cache = NoCache()
    return compiled


def _nothing() -> None:
    """What a call prepares before types are known: nothing. Numba would look for other packages' extensions of it and
    import them; the compiler does so by itself, and a kernel out of the cache knows none.
    """


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a helper into the kernels that call it: as a call of its own it would take every array apart again."""
    return numba.njit(function, **_OPTIONS, forceinline=True)


def alike(*arrays: np.ndarray) -> list[np.ndarray]:
    """Return read-only views of what a kernel only reads: rows of a file are read-only and others are not, and Numba
    would compile the kernel for both.
    """
    return [_read_only(array) if array.flags.writeable else array for array in arrays]


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.setflags(write=False)
    return view


@intrinsic
def prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]
    """Ask for the cache line of array[index] before it is needed; ``index`` is a uint64 inside a contiguous array."""
    del typing_context

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        wanted = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], wanted)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        to_read, to_all_levels, as_data = number(0), number(3), number(1)
        builder.call(function, [address, to_read, to_all_levels, as_data])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate
