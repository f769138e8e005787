"""Which rows of a data set a run was trained on: scores on those say nothing about rows to come.

run.json has the fingerprint of the training data and the digest of each of its shards. Known are the same rows as a
whole, shards that are the same, and files that became whole shards (each was ingested, appended or taken in by a night
on its own). Rows that came by another way (some of a file, in another order, with other weights or without labels) are
not recognised.
"""

from __future__ import annotations

from pipeline.data.dataset import Dataset
from pipeline.data.shards.digest import lanes_of
from pipeline.data.shards.sequence import DigestSequence
from pipeline.runs.data_record import DataRecord
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.spec import PathSpec


def rows_seen(about: DataRecord, data: Dataset | RowsToScore) -> int:
    """Return how many rows of the data are among those that a run on these data had, hold-out included."""
    if about.fingerprint == data.fingerprint:
        return data.n_rows
    known = DigestSequence(about.shards)  # early runs have none
    if isinstance(data, RowsToScore):
        parts = list(data.files)
    else:
        parts = [(lanes_of(shard.digest), shard.n_rows) for shard in data.shards]
    return sum(rows for lanes, rows in parts if known.find(lanes, rows))


def said_of_seen(about: DataRecord, spec: PathSpec, data: Dataset | RowsToScore) -> str:
    """Return what has to be said of scores on these data; empty if none of the rows is known to the run."""
    count = rows_seen(about, data)
    if not count:
        return ""
    share = spec.holdout if spec.fold is None else 1 / spec.fold[1]
    kept = f" but for a hold-out of {share:.3g} of them" if share else ""
    rows = "these rows" if count == data.n_rows else f"{count:,} of the {data.n_rows:,} rows"
    return f"the run was trained on {rows}{kept}: scores on new rows will be lower"
