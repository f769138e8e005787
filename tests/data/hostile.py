"""Manifests as someone who means harm, or a flipped bit, would write them: all sums and the fingerprint agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.data.shards.digest import fingerprint
from pipeline.data.shards.manifest import MANIFEST


def edit(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest, and make it agree with itself as far as that has a meaning."""
    item = json.loads((out / MANIFEST).read_text())
    change(item)
    try:
        shards = item["shards"]
        rows, nnz, positives = (sum(shard[key] for shard in shards) for key in ("rows", "nnz", "positives"))
        parts = [((int(s["digest"][:16], 16), int(s["digest"][16:], 16)), s["rows"]) for s in shards]
        found = fingerprint(parts, item["features"])
        item |= {"rows": rows, "nnz": nnz, "label_counts": {"-1": rows - positives, "+1": positives}}
        item["fingerprint"] = found
    except (TypeError, ValueError, LookupError, ArithmeticError):
        pass
    (out / MANIFEST).write_text(json.dumps(item))


def snapshot(folder: Path) -> dict[str, bytes]:
    """The content of every file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
