"""The backend of worker processes: fresh ones (spawned, so that no lock is inherited), kept from pass to pass.

The problem: when one of them dies, all that is known is that the pool broke. So each notes which shard it is at, in a
private folder, and the exit codes are looked at: killed at a shard is one thing, never having started another. For that
the usual reason is a script without an ``if __name__ == "__main__":``: every new process runs the script once more,
which would start processes in its turn.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing import spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any

import cloudpickle

from pipeline.cores import available_cores
from pipeline.engine.naming import named
from pipeline.engine.sharing import read_only, share_in_memory
from pipeline.errors import EngineError, SieveError

NAME = "svmsieve-worker"
NO_GUARD = 78  # exit code of a process that ran the script which started it (EX_CONFIG of sysexits.h)
GUARD = 'put what your script does below `if __name__ == "__main__":`, as worker processes import it; or use threads'
REMEDY = "use fewer workers, smaller shards or threads"


class _Context(SpawnContext):
    """Makes processes that know their name before they import anything, and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[SpawnProcess] = []

    def Process(self, *arguments: Any, **settings: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        self.made.append(SpawnProcess(*arguments, **settings | {"name": NAME}))
        return self.made[-1]


class Processes:
    """A pool of processes of this machine."""

    name, in_process = "processes", False

    def __init__(self, workers: int | None) -> None:
        _check_script()
        self.workers, self.broken = workers or available_cores(), False
        self.notes = Path(tempfile.mkdtemp(prefix="svmsieve-notes-"))
        self._start()

    @property
    def branches(self) -> int:
        """What branches return travels: few."""
        return 2 * self.workers

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function as a process calls it: it notes its shard first."""
        return _Noted(function, str(self.notes))

    def each(
        self, task: Callable[..., Any], items: Sequence[Any], shared: tuple[Any, ...], ahead: int
    ) -> Iterator[Any]:
        """Yield results in order, arrays being shared in memory; a process that dies is an error."""
        if self.broken:
            self._start()
        waiting: deque[Future[Any]] = deque()
        with share_in_memory(shared) as given:
            try:
                packed = cloudpickle.dumps(task)  # functions of a script or a notebook, too
                for item in items:
                    if len(waiting) == ahead:
                        yield waiting.popleft().result()
                    waiting.append(self.pool.submit(_call, packed, item, given))
                while waiting:
                    yield waiting.popleft().result()
            except BrokenProcessPool as error:
                self.broken = True
                self.pool.shutdown(cancel_futures=True)
                raise EngineError(self._what_happened()) from error
            finally:
                for future in waiting:
                    future.cancel()

    def close(self) -> None:
        """End the processes."""
        self.pool.shutdown(cancel_futures=True)
        shutil.rmtree(self.notes, ignore_errors=True)

    def abandon(self) -> None:
        """Kill the processes: one that hangs would not end."""
        for each in self.context.made:
            if each.is_alive():
                each.kill()
        self.close()

    def _start(self) -> None:
        self.context, notes = _Context(), (str(self.notes),)
        self.pool = ProcessPoolExecutor(self.workers, self.context, initializer=_follow_parent, initargs=notes)
        self.broken = False

    def _what_happened(self) -> str:
        codes = {each.pid: each.exitcode for each in self.context.made}
        if NO_GUARD in codes.values():
            return f"the worker processes ran your script instead of working; {GUARD}"
        guilty = [
            pid for pid, code in codes.items() if code not in (None, 0, -signal.SIGTERM)
        ]  # the pool ends the rest
        places = sorted({note.read_text() for pid in guilty if (note := self.notes / str(pid)).exists()})
        where = f" at {' or '.join(places)}" if places else ""
        if -signal.SIGKILL in codes.values():
            return f"a worker process was killed{where} (out of memory, most likely); {REMEDY}"
        told = ", ".join(sorted({_ended(codes[pid] or 0) for pid in guilty}))
        if not places:
            return f"the worker processes did not start ({told}; they may have said why above); {GUARD}"
        return f"a worker process died{where} ({told or 'killed'}); {REMEDY}"


class _Noted:
    """Calls ``function`` for a shard, whose name is in a file meanwhile that is named after the process."""

    def __init__(self, function: Callable[..., Any], folder: str) -> None:
        self.function, self.folder = function, folder
        self.__name__ = getattr(function, "__name__", "run")

    def __call__(self, shard: Any, *shared: Any) -> Any:
        """Call it."""
        Path(self.folder, str(os.getpid())).write_text(named(shard))
        try:
            return self.function(shard, *shared)
        except SieveError:
            raise
        except MemoryError as error:
            raise EngineError(f"a worker process ran out of memory at {named(shard)}; {REMEDY}") from error


def _call(packed: bytes, item: Any, given: tuple[Any, ...]) -> Any:
    return _unpacked(packed)(item, *(read_only(value) for value in given))


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Callable[..., Any]:
    return pickle.loads(packed)  # noqa: S301 - from the process that started this one


def _check_script() -> None:
    """End here if this is a worker process of ours that is importing the script which started it."""
    try:
        spawn.get_preparation_data(NAME)
    except RuntimeError as error:
        if multiprocessing.current_process().name == NAME:
            os._exit(NO_GUARD)
        raise EngineError(f"processes cannot be started here; {GUARD}") from error


def _ended(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _follow_parent(notes: str) -> None:
    """Leave Ctrl-C to the main process, and end when it ends, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        shutil.rmtree(notes, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=follow, daemon=True, name="svmsieve-follow").start()
