"""How a job stands as a Prometheus text file, for the textfile collector of node-exporter.

It holds moments, not ages: it is true until the next night writes it again, and ``time() -`` makes an age of a moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import JobError
from pipeline.files import replacing
from pipeline.nightly.days import moment
from pipeline.nightly.records import STATUSES
from pipeline.nightly.standing import CODES, Standing, published_at, standing
from pipeline.nightly.store import Store

Sample = tuple[dict[str, str], int | float]


def write_metrics(store: Store, path: Path | None = None, how: Standing | None = None) -> None:
    """Write the file, all at once, into the store or to ``path``."""
    with replacing(path or store.metrics) as stream:
        stream.write(metrics(store, how or standing(store)).encode("utf-8", "replace"))


def metrics(store: Store, how: Standing) -> str:
    """Return the text: one family of samples after another, each with its HELP and TYPE."""
    lines = []
    for name, about, samples in _families(store, how):
        lines += [f"# HELP svmsieve_{name} {about}", f"# TYPE svmsieve_{name} gauge"]
        lines += [f"svmsieve_{name}{_labels(store, labels)} {value!r}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _families(store: Store, how: Standing) -> Iterator[tuple[str, str, list[Sample]]]:
    history, name = store.read_history(), store.published()
    nights = history.nights
    states: list[Sample] = [({"state": state}, int(state == how.state)) for state in CODES]
    yield "store_state", "How the nightly job stands: 1 for its state.", states
    yield "store_exit_code", "Exit code of svmsieve store status.", [({}, how.code)]
    if name is not None:
        made = published_at(name, history).timestamp()
        yield "model_timestamp_seconds", "When the published model was made.", [({"night": name}, made)]
        published = history.of(name)
        known = (published.scores if published else None) or {}
        scores: list[Sample] = [({"score": k}, v) for k, v in known.items() if v is not None]
        if scores:
            yield "model_score", "Scores of the published model on rows held out.", scores
    if nights:
        last = nights[-1]
        ended = moment(last.ended or last.date).timestamp()
        yield "last_night_timestamp_seconds", "When the last night ended.", [({"night": last.night}, ended)]
        marked: list[Sample] = [({"status": status}, int(status == last.status)) for status in STATUSES]
        yield "last_night_status", "How the last night ended: 1 for its status.", marked
    counts: list[Sample] = [
        ({"status": status}, sum(night.status == status for night in nights)) for status in STATUSES
    ]
    yield "nights", "Nights in the history, by how they ended.", counts
    rows = next((night.rows for night in reversed(nights) if night.rows is not None), None)
    if rows is not None:
        yield "rows", "Rows of the data set.", [({}, rows)]
    yield "quarantined_files", "Input files that could not be taken in.", _quarantined(store)
    yield "hold", "Whether a hold keeps nights from publishing.", [({}, int(store.hold()))]
    yield "history_damaged_lines", "Lines of history.jsonl that cannot be read.", [({}, len(history.damage))]


def _quarantined(store: Store) -> list[Sample]:
    """Return how many files are in quarantine; no number where the ledger cannot be read."""
    try:
        return [({}, len(store.ledger().quarantined()))]
    except JobError:
        return []


def _labels(store: Store, labels: dict[str, str]) -> str:
    pairs = {"store": str(store.root.absolute())} | labels
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in pairs.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
