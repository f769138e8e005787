"""Where this user's downloads, and the shards made of files, are kept between commands."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Return $SVMSIEVE_CACHE, else $XDG_CACHE_HOME/svmsieve, else ~/.cache/svmsieve."""
    if os.environ.get("SVMSIEVE_CACHE"):
        return Path(os.environ["SVMSIEVE_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "svmsieve"
