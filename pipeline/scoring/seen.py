"""Which rows of a data set a run was trained on: scores on those say nothing about rows to come.

run.json has the fingerprint of the training data and the digest of each of its shards: the same rows as a whole, shards
that are the same, and files that became whole shards (each was ingested, appended or taken in by a night on its own)
are known by these, hold-out included. Other rows are known by their features, whatever label, weight and place they
have, from the sketch that a run keeps of those it was trained on: each of them where that is complete, else an estimate
of how many. Runs of before there was a sketch know whole shards and files only.
"""

from __future__ import annotations

from typing import Any

from pipeline.data.dataset import Dataset
from pipeline.data.shards.digest import lanes_of
from pipeline.data.shards.sequence import DigestSequence
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.events import Listener, Note, silent
from pipeline.maths.row_sketch import RowSketch
from pipeline.runs.classes import ClassesRun
from pipeline.runs.data_record import DataRecord
from pipeline.runs.run import RunOf
from pipeline.runs.sketch_file import read_sketch
from pipeline.scoring.model import TrainedModel
from pipeline.scoring.rows_to_score import RowsToScore
from pipeline.scoring.watch import Watch
from pipeline.spec import PathSpec


@dataclass(frozen=True)
class TrainedOn:
    """How many of ``rows`` rows a run was trained on; ``exact``, or about so many.

    By ``features`` means that rows with the same features were trained on, which may have been others.
    """

    count: int
    rows: int
    exact: bool = True
    features: bool = False

    def said(self, spec: PathSpec) -> str:
        """Return what has to be said of scores on these rows; empty if none of them is known to the run."""
        if not self.count:
            return ""
        about = "" if self.exact else "about "
        whole = self.exact and self.count == self.rows
        rows = "these rows" if whole else f"{about}{self.count:,} of the {self.rows:,} rows"
        if self.features:
            return f"the run was trained on {rows}, or on rows with the same features: scores on new rows may be lower"
        share = spec.holdout if spec.fold is None else 1 / spec.fold[1]
        kept = f" but for a hold-out of {share:.3g} of them" if share else ""
        return f"the run was trained on {rows}{kept}: scores on new rows will be lower"


def rows_seen(about: DataRecord, data: Dataset | RowsToScore, watch: Watch | None) -> TrainedOn:
    """Return how many rows of the data a run was trained on; ``watch`` has been shown all of them."""
    known = _known_by_digest(about, data)
    if watch is None or watch.tally.estimate <= known:
        return TrainedOn(known, data.n_rows)
    return TrainedOn(watch.tally.estimate, data.n_rows, watch.tally.is_exact, features=True)


def mention_rows_seen(
    engine: Engine,
    run: DataRecord,
    model: TrainedModel,
    validation: Dataset,
    sketch: RowSketch | None,
    spec: PathSpec,
    listen: Listener,
) -> None:
    """Say so if a run is trained on rows of validation data, which ``model`` can score."""
    watch = None if sketch is None else Watch(sketch)
    if watch is not None:
        watch.count(engine, validation, model.places_on(validation, silent))
    if said := rows_seen(run, validation, watch).said(spec):
        listen(Note(f"{validation.path}: {said}"))


def watch_for(run: RunOf[Any], listen: Listener) -> Watch | None:
    """Return who knows the rows that a run was trained on; None, and a note, if that is damaged, None in older runs.

    Of several classes the first one's run knows.
    """
    first = run.runs[0] if isinstance(run, ClassesRun) else run
    record = first.header.sketch
    if record is None:
        return None
    try:
        return Watch(read_sketch(first.path, record))
    except RunError as error:
        listen(Note(f"{error}; until then only whole files and shards that were trained on are known"))
        return None


def _known_by_digest(about: DataRecord, data: Dataset | RowsToScore) -> int:
    """Return how many rows of the data are in shards or files that the run had, hold-out included."""
    if about.fingerprint == data.fingerprint:
        return data.n_rows
    known = DigestSequence(about.shards)  # early runs have none
    if isinstance(data, RowsToScore):
        parts = list(data.files)
    else:
        parts = [(lanes_of(shard.digest), shard.n_rows) for shard in data.shards]
    return sum(rows for lanes, rows in parts if known.find(lanes, rows))
