"""No test waits for the disk: none can cut the power, and those that act as if watch the calls.

Only in the process of the tests; one that is to be killed half-way is as slow as it would be.
"""

from __future__ import annotations

import os


def fsync(descriptor: int) -> None:
    """Take the place of ``os.fsync``, which was half of the time of many tests: fail where it fails, force nothing."""
    os.fstat(descriptor)
