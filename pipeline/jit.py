"""Hot loops in machine code: compiled by Numba on their first call, kept on disk, from then on called without Numba.

A process that finds all its kernels on disk never imports Numba, which alone would take a third of a second of every
command: machine code needs a linker and the C side of Numba's runtime (``machine_code``). What a call has to know is
which machine code its arguments need, and that their types alone decide.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, cast

import numpy as np

from pipeline.errors import MissingError
from pipeline.kernel_stamp import Compilable, Intrinsic, stamp_of

# What Numba tells arrays apart by, besides their type: C order or else Fortran's, aligned, writable (NumPy's numbers).
_FORTRAN = 0x2
_LAYOUT = 0x1 | _FORTRAN | 0x100 | 0x400
_one_at_a_time = RLock()  # of kernels that are loaded or compiled


class Kernel(Compilable):
    """A function of arrays, numbers and tuples of them, all given by their place, as machine code."""

    def __init__(self, function: Callable[..., Any], **options: bool) -> None:
        super().__init__(function, **options)
        self._entries: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code for arguments of these types."""
        kinds = kinds_of(arguments)
        entry = self._entries.get(kinds)
        if entry is None:
            with _one_at_a_time:
                entry = self._entries.get(kinds) or self._found(kinds, arguments)
        return entry(*arguments)

    def _found(self, kinds: tuple[Any, ...], arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Return machine code from the disk, or compiled now."""
        from pipeline.machine_code import CodeFile  # noqa: PLC0415 - LLVM: 0.1 s

        kept = CodeFile(self.function, stamp_of(self), types_in_writing(arguments))
        entry, linkable = kept.linked()
        if entry is None:
            try:
                from pipeline.compiling import compiled  # noqa: PLC0415 - Numba: 0.3 s
            except ImportError as error:
                raise MissingError(f"{error}: loops are compiled by Numba; pip install --upgrade numba") from error
            entry = compiled(self, arguments, kept, linkable)
        self._entries[kinds] = entry
        return entry


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a hot loop, without the GIL. Where no cache can be written (a read-only image) every process does."""
    return Kernel(function)


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a helper into the kernels that call it: as a call of its own it would take every array apart again."""
    return Kernel(function, forceinline=True)


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Take a helper's machine code instruction by instruction, as ``numba.extending.intrinsic`` does."""
    return cast("Callable[..., Any]", Intrinsic(function))


@intrinsic
def prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]
    """Ask for the cache line of array[index] before it is needed; ``index`` is a uint64 inside a contiguous array."""
    from llvmlite import ir  # noqa: PLC0415
    from numba import types  # noqa: PLC0415

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


def kinds_of(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what tells arguments of other types apart, quickly."""
    array, layout = np.ndarray, _LAYOUT  # 0.2 microseconds each
    return tuple([(x.dtype, x.ndim, x.flags.num & layout) if type(x) is array else _kind(x) for x in arguments])


def _kind(value: Any) -> Any:
    kind = type(value)
    if kind is tuple:
        return kinds_of(value)
    if isinstance(value, np.ndarray):  # mapped from a file
        return value.dtype, value.ndim, value.flags.num & _LAYOUT
    if kind is int and not -(2**63) <= value < 2**63:
        return "uint64"
    return kind


def types_in_writing(arguments: tuple[Any, ...]) -> str:
    """Return the types of arguments in writing: the same in every process."""
    return " ".join([_name(x) for x in arguments])


def _name(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({types_in_writing(value)})"
    if isinstance(value, np.ndarray):
        layout = value.flags.num & (_LAYOUT & ~_FORTRAN if value.flags.c_contiguous else _LAYOUT)
        return f"{value.dtype.str}:{value.ndim}:{layout:x}"
    if isinstance(value, np.generic):
        return value.dtype.str
    kind = _kind(value)
    return {int: "<i8", float: "<f8", bool: "|b1"}.get(kind, str(kind))


def alike(*arrays: np.ndarray) -> list[np.ndarray]:
    """Return read-only views of what a kernel only reads: rows of a file are read-only and others are not, and Numba
    would compile the kernel for both.
    """
    return [_read_only(array) if array.flags.writeable else array for array in arrays]


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.setflags(write=False)
    return view
