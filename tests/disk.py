"""Nothing in a test waits for the disk: no test can cut the power, and those that act as if count the calls instead."""

from __future__ import annotations

import os


def fsync(descriptor: int) -> None:
    """Take the place of ``os.fsync``, which was half of the time of many tests: fail where it fails, force nothing."""
    os.fstat(descriptor)
