"""The chain of a run's steps: each line of steps.jsonl seals its model and all lines before it, and run.json itself.

    ``model``  the SHA-256 of the step's model file
    ``chain``  the SHA-256 of the chain so far and of the line without ``chain``
    ``seal``   the SHA-256 of run.json without ``seal``

The first link stands on what run.json says of settings, data and versions; run.json holds the last one when the run is
finished. So a step cannot be changed, removed or moved without a trace, nor status, best step or C_min. What a run took
(``seconds``, memory, and ``passes``, which an interruption adds to) is left out: the same run has the same chain and
seal, however often it was interrupted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

CHAIN, MODEL, SEAL = "chain", "model", "seal"
FOUNDATION = ("format", "version", "spec", "data", "versions")
SPENT = ("seconds", "passes", "peak_memory")


def is_chained(header: dict[str, Any]) -> bool:
    """Tell whether the run has a chain; runs of version 1 may have none."""
    return CHAIN in header or header["version"] != 1


def foundation(header: dict[str, Any]) -> str:
    """Return what the first step's link stands on; where the data lay is no part of it."""
    return _digest(_anywhere({name: header.get(name) for name in FOUNDATION}))


def sealed(header: dict[str, Any]) -> dict[str, Any]:
    """Return run.json with its seal; where the data lay is no part of it."""
    return header | {SEAL: seal_of(header)} if is_chained(header) else header


def seal_of(header: dict[str, Any]) -> str:
    """Return the seal that run.json must have."""
    return _digest(_anywhere({name: value for name, value in header.items() if name not in (SEAL, *SPENT)}))


def link(before: str, line: dict[str, Any]) -> str:
    """Return the chain after a line, given the chain before it."""
    return _digest([before, {name: value for name, value in line.items() if name not in (CHAIN, *SPENT)}])


def broken(header: dict[str, Any], lines: Iterable[dict[str, Any]]) -> list[bool]:
    """Tell for each line whether it does not follow from what the one before it says."""
    found, before = [], foundation(header)
    for line in lines:
        found.append(line.get(CHAIN) != link(before, line))
        before = str(line.get(CHAIN))
    return found


def _anywhere(header: dict[str, Any]) -> dict[str, Any]:
    return header | {"data": {name: value for name, value in header["data"].items() if name != "path"}}


def _digest(item: Any) -> str:
    return hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()
