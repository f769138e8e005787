"""Versions of installed packages, without reading what each says of itself: that takes 30 ms of every command."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module


@cache
def version(name: str) -> str:
    """Return the version of a package: as it says itself if it is loaded, else as its folder is called."""
    if name != "svmsieve":  # which asks us
        said = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(said, str):
            return said
    normal = re.escape(name).replace(r"\-", "[-_.]")
    named = re.compile(rf"{normal}-(?P<version>[^-]+)\.dist-info", re.IGNORECASE)
    for folder in sys.path:
        with suppress(OSError):  # not a folder
            found = [match["version"] for match in map(named.fullmatch, os.listdir(folder or ".")) if match]  # noqa: PTH208 - names
            if len(found) == 1:
                return found[0]
            if found:  # left behind by another installation
                break
    answer = import_module("importlib.metadata").version(name)
    assert isinstance(answer, str)
    return answer
