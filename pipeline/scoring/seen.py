"""Which rows of a data set a run was trained on: scores on those say nothing about rows to come.

run.json has the fingerprint of the training data and the digest of each of its shards. Known are the same rows as a
whole, shards that are the same, and files that became whole shards (each was ingested, appended or taken in by a night
on its own). Rows that came by another way (some of a file, in another order, with other weights or without labels) are
not recognised.
"""

from __future__ import annotations

from pipeline.data.dataset import Dataset
from pipeline.data.shards.digest import Lanes, join_digests, lanes_of
from pipeline.runs.data_record import DataRecord
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.spec import PathSpec


def rows_seen(about: DataRecord, data: Dataset | RowsToScore) -> int:
    """Return how many rows of the data are among those that a run on these data had, hold-out included."""
    if about.fingerprint == data.fingerprint:
        return data.n_rows
    shards = about.shards  # early runs have none
    if isinstance(data, RowsToScore):
        known = [(lanes_of(digest), rows) for digest, rows in shards]
        return sum(rows for lanes, rows in data.files if _follow_each_other(known, lanes, rows))
    digests = {digest for digest, _ in shards}
    return sum(shard.n_rows for shard in data.shards if shard.digest in digests)


def _follow_each_other(shards: list[tuple[Lanes, int]], lanes: Lanes, rows: int) -> bool:
    """Whether some shards, one after the other, have just these rows."""
    for first in range(len(shards)):
        end, count = first, 0
        while count < rows and end < len(shards):
            count += shards[end][1]
            end += 1
        if count == rows and join_digests(shards[first:end]) == lanes:
            return True
    return False


def said_of_seen(about: DataRecord, spec: PathSpec, data: Dataset | RowsToScore) -> str:
    """Return what has to be said of scores on these data; empty if none of the rows is known to the run."""
    count = rows_seen(about, data)
    if not count:
        return ""
    share = spec.holdout if spec.fold is None else 1 / spec.fold[1]
    kept = f" but for a hold-out of {share:.3g} of them" if share else ""
    rows = "these rows" if count == data.n_rows else f"{count:,} of the {data.n_rows:,} rows"
    return f"the run was trained on {rows}{kept}: scores on new rows will be lower"
