"""The targets by name."""

from __future__ import annotations

from tests.fuzz.csv import Csv
from tests.fuzz.jobs import Jobs
from tests.fuzz.judge import Target
from tests.fuzz.manifests import ClassManifests, Manifests
from tests.fuzz.npz import Npz
from tests.fuzz.options import Options
from tests.fuzz.parquet import Parquet
from tests.fuzz.runs import ClassRuns, KernelRuns, Runs
from tests.fuzz.shards import ClassShards, Shards
from tests.fuzz.svmlight import Svmlight
from tests.fuzz.tables import Columns, StoredTables, Tables

TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (
        *(Svmlight, Csv, Parquet, Npz, Manifests, ClassManifests, Shards, ClassShards),
        *(Tables, Columns, StoredTables, Runs, KernelRuns, ClassRuns, Jobs, Options),
    )
}
