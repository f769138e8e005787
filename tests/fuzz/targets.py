"""The targets by name."""

from __future__ import annotations

from tests.fuzz.csv import Csv
from tests.fuzz.jobs import Jobs
from tests.fuzz.judge import Target
from tests.fuzz.manifests import Manifests
from tests.fuzz.npz import Npz
from tests.fuzz.options import Options
from tests.fuzz.parquet import Parquet
from tests.fuzz.runs import KernelRuns, Runs
from tests.fuzz.shards import Shards
from tests.fuzz.svmlight import Svmlight

TARGETS: dict[str, type[Target]] = {
    target.name: target for target in (Svmlight, Csv, Parquet, Npz, Manifests, Shards, Runs, KernelRuns, Jobs, Options)
}
