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
        rows, nnz = (sum(shard[key] for shard in shards) for key in ("rows", "nnz"))
        parts = [((int(s["digest"][:16], 16), int(s["digest"][16:], 16)), s["rows"]) for s in shards]
        found = fingerprint(parts, item["features"])
        item |= {"rows": rows, "nnz": nnz, "label_counts": label_counts(item)}
        item["fingerprint"] = found
    except (TypeError, ValueError, LookupError, ArithmeticError):
        pass
    (out / MANIFEST).write_text(json.dumps(item))


def label_counts(item: dict[str, Any]) -> dict[str, int]:
    """Rows by class or by sign, as the shards say."""
    if "classes" in item:
        return {name: sum(shard["counts"][k] for shard in item["shards"]) for k, name in enumerate(item["classes"])}
    positives = sum(shard["positives"] for shard in item["shards"])
    return {"-1": sum(shard["rows"] for shard in item["shards"]) - positives, "+1": positives}


def snapshot(folder: Path) -> dict[str, bytes]:
    """The content of every file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
