"""Kernels compiled by Numba, which is imported here and nowhere else: by a process that has something to compile.

Many kernels to compile are half a minute of silence on a first use. Whoever listens to the process (``events``) hears
of it once, as soon as a second has gone by; worker processes have no listener, and stay silent. Processes that begin
together need the same kernels: one of them compiles each, the others wait for it.

Where machine code cannot be linked without Numba (``linking``), Numba's own cache keeps it, and processes import Numba.
"""

from __future__ import annotations

import fcntl
import hashlib
import pickle
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.registry import cpu_target
from numba.core.typing.typeof import typeof_impl
from numba.extending import intrinsic

from pipeline.errors import SpecError
from pipeline.events import Note, announce
from pipeline.kernel_stamp import Compilable, Intrinsic
from pipeline.machine_code import CodeFile

SILENT_SECONDS = 1.0  # of compiling before it is worth a line: one new kernel takes 0.1 to 1 s, all of a path 10 to 30
ONCE = "compiling (first use of this version on this machine, once; about half a minute)"
ALWAYS = "compiling (about half a minute, and again the next time: no cache can be written; set NUMBA_CACHE_DIR)"
SECONDS_FOR_OTHERS = 20.0  # to compile a kernel, which takes 3 at most: they may have been stopped
# Nobody calls kernels from C: the entries for that would be a twentieth of the time that compiling takes.
_OPTIONS = {"nogil": True, "no_cfunc_wrapper": True}


class _Silence:
    """How many seconds this process has compiled, and whether it was said."""

    seconds = 0.0
    over = False


@cache
def known_as(source: Compilable) -> Any:
    """Return what Numba knows a function as that is to be compiled."""
    if not isinstance(source, Intrinsic):
        return numba.njit(source.function, **_OPTIONS, **source.options)
    found = intrinsic(source.function)
    cpu_target.typing_context.refresh()
    return found


@typeof_impl.register(Compilable)
def _type_of(source: Compilable, context: Any) -> Any:
    """Return the type of a helper, or a kernel, that one to be compiled calls."""
    del context
    return cpu_target.typing_context.resolve_value_type(known_as(source))


def compiled(kernel: Compilable, arguments: tuple[Any, ...], kept: CodeFile, linkable: bool) -> Callable[..., Any]:
    """Compile a kernel for arguments of these types, and keep that on disk."""
    if numba.config.DISABLE_JIT:
        raise SpecError("NUMBA_DISABLE_JIT is set, and without compiled loops nothing would end; unset it")
    if not _Silence.over and _Silence.seconds >= SILENT_SECONDS:
        _Silence.over = announce(Note(ALWAYS if kept.folder is None else ONCE))
    begun, types, was_kept = time.monotonic(), tuple(numba.typeof(x) for x in arguments), False
    with _alone(kept):
        entry, linkable = kept.linked() if linkable else (None, False)  # another process may just have compiled it
        if entry is not None:
            was_kept = True
        elif linkable or kept.folder is None:
            found = known_as(kernel)
            entry = found.compile(types)
        else:
            found, entry = _compiled_by_numba(kernel, types, kept.folder / kept.stamp)
            was_kept = types in found.stats.cache_hits
        if linkable and not was_kept:
            kept.save(found.overloads[types])
    if not was_kept:
        _Silence.seconds += time.monotonic() - begun
    assert entry is not None
    return entry


def _compiled_by_numba(kernel: Compilable, types: tuple[Any, ...], folder: Path) -> tuple[Any, Callable[..., Any]]:
    """Return what Numba knows a kernel as, and its machine code, out of Numba's cache if that has it."""
    found = kept_by_numba(kernel, folder)
    try:
        return found, found.compile(types)
    except (OSError, EOFError, pickle.UnpicklingError):  # a full disk, or what was left of it: Numba minds
        shutil.rmtree(folder, ignore_errors=True)
        found = known_as(kernel)
        return found, found.compile(types)


@cache
def kept_by_numba(source: Compilable, folder: Path) -> Any:
    """Return what Numba knows a kernel as, and keeps in a folder: one for all that it is made of, since Numba would not
    notice a helper of another file that changed.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        return numba.njit(source.function, cache=True, **_OPTIONS, **source.options)
    except RuntimeError:  # "cannot cache function": its source is in no file
        return known_as(source)
    finally:
        numba.config.CACHE_DIR = before


@contextmanager
def _alone(kept: CodeFile) -> Iterator[None]:
    """Be the only process that compiles a kernel, if others can be seen and end; a lock goes with its process."""
    with ExitStack() as stack:
        if kept.folder is not None:
            byte = int(hashlib.sha256(kept.name.encode()).hexdigest()[:7], 16)
            with suppress(OSError):
                stream = stack.enter_context((kept.folder / ".compiling").open("ab"))
                _wait_for(stream.fileno(), byte)
        yield


def _wait_for(file: int, byte: int) -> None:
    """Lock a byte of a file, which stands for a kernel."""
    end = time.monotonic() + SECONDS_FOR_OTHERS
    while time.monotonic() < end:
        with suppress(BlockingIOError, PermissionError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            return
        time.sleep(0.01)
