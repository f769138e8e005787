"""What people call a shard."""

from __future__ import annotations

from typing import Any

from pipeline.redact import redacted


def named(shard: Any) -> str:
    """Return what people call a shard, or a piece of one, for an error."""
    whole = shard[0] if isinstance(shard, tuple) else shard
    whole = getattr(whole, "shard", whole)  # of a place in a result
    return redacted(str(getattr(whole, "path", f"shard {whole}")))
