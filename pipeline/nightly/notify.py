"""Telling others: the command of the job's ``notify`` gets a night's record, as JSON, on its standard input.

It is the operator's command, split into words as a shell would, but run without one: nothing of what a night found,
such as the name of a file, ever becomes part of it. It has a minute; what it does changes nothing about the night, and
of what it says only the end is kept, however much that is.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO

from pipeline.nightly.history import written
from pipeline.nightly.records import NOTHING_NEW, NightRecord
from pipeline.redact import redacted

SECONDS = 60.0  # for the operator's command; the night is over and waits for it
_SHOWN = 200  # characters of what a failing command said


def notify(words: tuple[str, ...], night: NightRecord) -> str:
    """Run the command, unless nothing happened; return what went wrong, nothing if all is well."""
    if not words or night.status == NOTHING_NEW:
        return ""
    try:
        with TemporaryFile() as record:
            record.write(written(night).encode())
            record.seek(0)
            said, code = _run(words, record)
    except subprocess.TimeoutExpired:
        return f"notify: {words[0]} did not end within {SECONDS:g} s and was killed"
    except (OSError, ValueError) as error:
        return f"notify: {words[0]} cannot be run ({getattr(error, 'strerror', None) or error})"
    if code:
        last = redacted(" ".join(said.decode("utf-8", "replace").split()))[-_SHOWN:]
        return f"notify: {words[0]} ended with {code}" + (f" ({last})" if last else "")
    return ""


def _run(words: tuple[str, ...], record: IO[bytes]) -> tuple[bytes, int]:
    """Run a command; return the last of what it said, and its exit code."""
    out, err, deadline = subprocess.PIPE, subprocess.STDOUT, time.monotonic() + SECONDS
    with subprocess.Popen(words, stdin=record, stdout=out, stderr=err, start_new_session=True) as run:
        try:
            said = _last_said(run, deadline)
            return said, run.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)  # with all that it started
            raise


def _last_said(run: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Read what a command says, until it says no more."""
    assert run.stdout is not None
    source, said, ready = run.stdout.fileno(), b"", select.poll()
    ready.register(source, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0 and ready.poll(1000 * left):
        chunk = os.read(source, 1 << 16)
        if not chunk:
            return said
        said = (said + chunk)[-4 * _SHOWN :]
    raise subprocess.TimeoutExpired(run.args, SECONDS)
