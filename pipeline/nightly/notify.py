"""Telling others: the command of the job's ``notify`` gets a night's record, as JSON, on its standard input.

It is the operator's command, split into words as a shell would, but run without one: nothing of what a night found,
such as the name of a file, ever becomes part of it. It has a minute; what it does changes nothing about the night.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import Any

from pipeline.nightly.records import NOTHING_NEW, written
from pipeline.redact import redacted

SECONDS = 60.0
_SHOWN = 200  # characters of what a failing command said


def notify(words: tuple[str, ...], line: dict[str, Any]) -> str:
    """Run the command, unless nothing happened; return what went wrong, nothing if all is well."""
    if not words or line["status"] == NOTHING_NEW:
        return ""
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True) as run:
            try:
                said, _ = run.communicate(written(line).encode(), SECONDS)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(run.pid, signal.SIGKILL)  # with all that it started
                raise
    except subprocess.TimeoutExpired:
        return f"notify: {words[0]} did not end within {SECONDS:g} s and was killed"
    except (OSError, ValueError) as error:
        return f"notify: {words[0]} cannot be run ({getattr(error, 'strerror', None) or error})"
    if run.returncode:
        last = redacted(" ".join(said.decode("utf-8", "replace").split()))[-_SHOWN:]
        return f"notify: {words[0]} ended with {run.returncode}" + (f" ({last})" if last else "")
    return ""
