"""Which rows of a data set a run was trained on: scores on those say nothing about rows to come.

run.json has the fingerprint of the training data and the digest of each of its shards. Rows that came by another way
(one by one, in other shards, a copy in another file) are not recognised unless all rows are the same.
"""

from __future__ import annotations

from typing import Any

from pipeline.data.dataset import Dataset
from pipeline.flow.rows_to_score import RowsToScore
from pipeline.spec import PathSpec


def rows_seen(header: dict[str, Any], data: Dataset | RowsToScore) -> int:
    """Return how many rows of the data are among those that the run with this run.json had, hold-out included."""
    about = header["data"]
    if about["fingerprint"] == data.fingerprint:
        return data.n_rows
    known = {digest for digest, _ in about.get("shards", ())}  # runs of older versions have none
    return sum(shard.n_rows for shard in data.shards if shard.digest in known)


def said_of_seen(header: dict[str, Any], data: Dataset | RowsToScore) -> str:
    """Return what has to be said of scores on these data; empty if none of the rows is known to the run."""
    count, spec = rows_seen(header, data), PathSpec.from_json(header["spec"])
    if not count:
        return ""
    share = spec.holdout if spec.fold is None else 1 / spec.fold[1]
    kept = f" but for a hold-out of {share:.3g} of them" if share else ""
    rows = "these rows" if count == data.n_rows else f"{count:,} of the {data.n_rows:,} rows"
    return f"the run was trained on {rows}{kept}: scores on new rows will be lower"
