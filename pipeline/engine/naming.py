"""What the engine knows of a shard, or of a piece or a list of some: what people call it, and its size."""

from __future__ import annotations

from typing import Any

from pipeline.redact import redacted

UNKNOWN = 1 << 20  # nonzeros of what does not tell: as many as a shard usually has


def named(shard: Any) -> str:
    """Return what people call a shard, or a piece of one, for an error."""
    return redacted(str(getattr(_whole(shard), "path", f"shard {_whole(shard)}")))


def nonzeros_of(item: Any) -> int:
    """Return how many nonzeros a shard, a piece of one (counted whole) or a list of shards has; at least 1."""
    if isinstance(item, list):
        return sum(map(nonzeros_of, item))
    return max(1, getattr(_whole(item), "nnz", UNKNOWN))


def _whole(shard: Any) -> Any:
    """Return the shard that a piece of one, a tuple, belongs to."""
    return shard[0] if isinstance(shard, tuple) else shard
