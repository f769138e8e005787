"""Machine code of kernels on disk: object files that Numba made, to be linked without it (``linking``).

A file is the sha256 of what follows, a line of JSON, and the object file. It is named by the kernel, the types of its
arguments and the machine; made of something else than the kernel is now (``kernel_stamp``), it is written again. What
was cut short or damaged is not what its sha256 says, and is compiled again. Who may write to these folders decides what
runs: as with bytecode, which lies beside it, and with Numba's own cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from pipeline.files import atomic
from pipeline.linking import UnlinkableError, linked_entry, linker, needs, numba_version

VERSION = 2  # of the files


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

    def linked(self) -> tuple[Callable[..., Any] | None, bool]:
        """Return the kernel if a folder has it, and whether it can be linked without Numba."""
        try:
            return self.load(), True
        except UnlinkableError:
            return None, False

    def load(self) -> Callable[..., Any] | None:
        """Return the kernel, ready to be called; None if no folder has it as it is now.

        Raises UnlinkableError where only Numba can load it, whether or not it is there.
        """
        linker()
        for folder in folders():
            try:
                digest, _, content = (folder / self.name).read_bytes().partition(b"\n")
            except OSError:
                continue
            if digest == _digest(content):  # so it is as it was written
                line, _, code = content.partition(b"\n")
                head = json.loads(line)
                if (head["version"], head["stamp"]) == (VERSION, self.stamp):
                    return linked_entry(self.function, code, head)
        return None

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
            "needs": needs(code),
            "environment": result.fndesc.env_name,
            "environments": {name: [one.str for one in consts] for name, consts in environments.items()},
        }
        content = json.dumps(head).encode() + b"\n" + code
        with suppress(OSError), atomic(self.folder / self.name, sync=False) as stream:  # else it is compiled again
            stream.write(_digest(content) + b"\n" + content)


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
    versions = sys.version, np.__version__, llvmlite.__version__, numba_version()
    return repr((llvm.get_process_triple(), llvm.get_host_cpu_name(), features, versions, settings))
