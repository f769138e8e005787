"""How a command ends when it is told to: SIGTERM (from a supervisor) and SIGINT (Ctrl-C), whatever hangs.

The problem: a signal becomes a KeyboardInterrupt in the main thread, which unwinds and cleans up. On its way it meets
pools that wait for their threads, and a thread may hang in a read that never returns (a pipe, a file server that is
gone); at the end Python itself waits for all threads. And while the main thread is in compiled code it hears nothing.

So a thread of its own hears of signals. It interrupts the main thread again, every second, until that is through: each
time it leaves behind one thing that it waits for, and cleans up the next. Then the process ends without the threads
that hang. A second signal, or the end of patience, ends it at once.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, NoReturn

from pipeline.stopped import TOLD_BY, exit_code

SECONDS_FOR_TASKS = 3.0  # that are under way when the first signal comes: a shard is written in less
SECONDS_BETWEEN = 1.0  # between interruptions of the main thread, and between looks at how it ends
SECONDS_TO_END = 8.0  # in all: container engines kill after ten
SAME = 0.5  # seconds in which a second signal is the first one: ``timeout`` sends it to us and to our group
AGAIN = signal.SIGALRM
LEFT = 0  # no signal's number
SECONDS_TO_SEE_OUT = 3  # looks, a second apart, at whether Python's own end hangs


class Ending:
    """What signals have asked of this process so far."""

    def __init__(self) -> None:
        self.number = self.left = 0
        self.through = True
        self._process, self._writing = 0, -1
        self._usual = sys.unraisablehook
        self._before: dict[int, Any] = {}  # what was done about signals before us

    @property
    def code(self) -> int:
        """The exit code of a command that ends because it was told to, or was interrupted otherwise."""
        return exit_code(self.number)

    def begin(self) -> None:
        """Hear signals from now on; for the main thread of a process that runs one command."""
        self.number, self.through = 0, False
        if self._process != os.getpid():  # a forked process has no thread but this one
            self._process = os.getpid()
            reading, self._writing = os.pipe()
            os.set_blocking(self._writing, False)
            threading.Thread(target=self._hear, args=(reading,), daemon=True, name="svmsieve-ending").start()
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        signal.signal(AGAIN, _interrupt)
        for number in TOLD_BY:
            self._before.setdefault(number, signal.getsignal(number) or signal.SIG_DFL)
            signal.signal(number, self._told)
        if sys.unraisablehook is not _unraised:
            self._usual, sys.unraisablehook = sys.unraisablehook, _unraised

    def leave(self, code: int, whole: bool = False) -> NoReturn:
        """End the process; if Python waits for threads then that do not end soon, without them.

        Where the command is the ``whole`` process, and all went well, it ends as Python ends, but for taking all
        modules apart: that takes 0.2 s once LLVM is loaded.
        """
        self.cleaned_up()
        for number in TOLD_BY if whole else ():  # all is done and said but for Python's own end
            signal.signal(number, lambda *_: _end(code))
        if code:  # where all went well, nobody hangs
            self.left = code
            os.write(self._writing, bytes([LEFT]))
        elif whole:
            threading._shutdown()  # type: ignore[attr-defined] # waits for threads
            atexit._run_exitfuncs()
            _end(code)
        sys.exit(code)

    def cleaned_up(self) -> None:
        """Leave the main thread in peace, and signals to whoever had them before us."""
        self.through = True
        sys.unraisablehook = self._usual
        signal.set_wakeup_fd(-1)
        signal.signal(AGAIN, signal.SIG_IGN)
        while self._before:
            signal.signal(*self._before.popitem())

    def _told(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the main thread, once."""
        if not self.number:
            self.number = number
            raise KeyboardInterrupt

    def _hear(self, reading: int) -> None:
        """Wait for the first signal of a command; from then on see to it that the command ends."""
        while True:
            number = os.read(reading, 1)[0]
            if number == LEFT:
                self._see_out()
            elif number != AGAIN and not self.through:
                self._see_off(reading, number)

    def _see_out(self) -> None:
        """Wait a little for Python's own end, and end the process if that is where it hangs.

        Whoever called us may go on instead, as tests do. The main thread is at its end when it is in nothing but the
        function of ``threading`` that waits for all threads.
        """
        for _ in range(SECONDS_TO_SEE_OUT):
            time.sleep(SECONDS_BETWEEN)
            if not self.through:  # the next command
                return
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            while frame is not None and frame.f_back is not None:
                frame = frame.f_back
            if frame and (frame.f_code.co_filename, frame.f_code.co_name) == (threading.__file__, "_shutdown"):
                _end(self.left)

    def _see_off(self, reading: int, first: int) -> None:
        """Interrupt the main thread until it is through, and end the process when that takes too long."""
        number, begun = first, time.monotonic()
        due = begun + SECONDS_FOR_TASKS
        os.set_blocking(reading, False)
        while not self.through:
            time.sleep(0.02)
            now = time.monotonic()
            with contextlib.suppress(BlockingIOError):
                number = os.read(reading, 1)[0]
                if number == LEFT:
                    break
                if number != AGAIN and now > begun + SAME:
                    _end(128 + number)
            if now > begun + SECONDS_TO_END:
                _end(128 + first)
            if now > due and not self.through:
                signal.pthread_kill(threading.main_thread().ident or 0, AGAIN)
                due = now + SECONDS_BETWEEN
        os.set_blocking(reading, True)
        if number == LEFT:
            self._see_out()


def _unraised(lost: sys.UnraisableHookArgs) -> None:
    """Say what Python says of an exception that nobody can catch, but for an interruption: another one follows.

    It gets lost where the main thread is called from C, as by LLVM, which asks for the code of a kernel.
    """
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _end(code: int) -> NoReturn:
    """End at once; only what was said is still written."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
