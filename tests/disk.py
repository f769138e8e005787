"""No test waits for the disk: none can cut the power, and those that act as if watch the calls.

In the process of the tests, and in those that end at a certain line or operation; one that is to be killed at some
moment is as slow as it would be.
"""

from __future__ import annotations

import os


def fsync(descriptor: int) -> None:
    """Take the place of ``os.fsync``, which was half of the time of many tests: fail where it fails, force nothing."""
    os.fstat(descriptor)


def not_waited_for() -> None:
    """Force nothing to disk in this process from now on."""
    os.fsync = fsync
