"""The page of a nightly store: night by night what came, what was trained, what the gates said, and what it took."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import PurePosixPath

import numpy as np

from pipeline.draw import charts
from pipeline.draw.canvas import shown_name
from pipeline.errors import RunError, SieveError
from pipeline.nightly.ledger import QUARANTINE
from pipeline.nightly.records import NOTHING_NEW, PUBLISHED, NightRecord
from pipeline.nightly.store import Store
from pipeline.report.page import made_by
from pipeline.report.parts import Figure, Page, PageSection, PageTable, number, share
from pipeline.report.weights import moved_weights
from pipeline.runs.directory import open_run
from pipeline.runs.run import Run
from pipeline.runs.score_curve import score_name

MOST_NIGHTS = 366  # of the newest that are shown
PHASES_OF_NIGHT = ("intake", "screen", "train", "verify")


def store_page(store: Store) -> Page:
    """Return the page of a store that has had nights."""
    history = store.read_history()
    nights = history.nights[-MOST_NIGHTS:]
    if not nights:
        raise RunError(
            f"{store.root}: no night has ended yet, and there is nothing to show; run svmsieve nightly first"
        )
    sections = [_nights(nights), _scores(nights), _rows(nights), _files(store), _time(nights), _weights(store, nights)]
    sections[0].missing += history.damage
    if len(history.nights) > len(nights):
        sections[0].missing.append(f"The newest {len(nights)} of {len(history.nights):,} nights are shown.")
    last = nights[-1]
    return Page(
        f"svmsieve: {shown_name(str(store.root), 60)}",
        _verdict(store, nights),
        last.status in (PUBLISHED, NOTHING_NEW),
        sections,
        made_by(),
    )


def _verdict(store: Store, nights: list[NightRecord]) -> str:
    last, counts = nights[-1], Counter(night.status for night in nights)
    said = f"The last night, {last.night}, is {last.status}; current is {store.published() or 'nothing yet'}"
    if store.hold():
        said += " and held"
    return f"{said}. {len(nights)} nights: " + ", ".join(f"{n} {status}" for status, n in counts.items()) + "."


def _nights(nights: list[NightRecord]) -> PageSection:
    rows = []
    for night in reversed(nights):
        gates = "; ".join(str(gate) for gate in night.gates)
        why = night.error or night.problem or gates or "; ".join(night.notes)
        rows.append((night.night, night.status, number(night.c), number(night.relative_gap, 2), why))
    table = PageTable(
        "Nights, the newest first", ("night", "status", "C", "relative gap", "gates, or why"), rows, names=5
    )
    return PageSection("Nights", tables=[table])


def _scores(nights: list[NightRecord]) -> PageSection:
    section = PageSection(
        "Both models on the same rows", "Today's model and yesterday's on the rows that neither was trained on."
    )
    known = [night for night in nights if night.scores]
    names = list(known[-1].scores or ()) if known else []
    if not known:
        section.missing.append("No night has scored a model; a hold-out in job.yaml makes nights score.")
    for name in names:
        pair = {
            "tonight's": [_value(night.scores, name) for night in known],
            "yesterday's": [_value(night.yesterday, name) for night in known],
        }
        label = score_name(name)
        rows = [
            (night.night, number(a), number(b), _gate(night, name))
            for night, a, b in zip(known, *pair.values(), strict=True)
        ]
        table = PageTable(f"{label} by night", ("night", *pair, "gate"), rows, names=1)
        section.figures.append(_figure(label[0].upper() + label[1:], known, pair, label, table))
    return section


def _gate(night: NightRecord, name: str) -> str:
    found = [gate for gate in night.gates if gate.gate.startswith(name)]
    return "; ".join("passed" if gate.passed else "not passed" for gate in found)


def _rows(nights: list[NightRecord]) -> PageSection:
    moved = {
        "in": [float(night.files.rows_added) for night in nights],
        "out": [-float(night.files.rows_retired) for night in nights],
    }
    rows = [
        (night.night, f"{night.files.rows_added:,}", f"{night.files.rows_retired:,}", number(night.rows))
        for night in nights
    ]
    table = PageTable("Rows by night", ("night", "in", "out", "rows"), rows, names=1)
    figures = [_figure("Rows in and out", nights, moved, "rows", table, bars=True)]
    counts = {
        "added": [float(len(night.files.added)) for night in nights],
        "late": [float(len(night.files.late)) for night in nights],
        "retired": [float(len(night.files.retired)) for night in nights],
        "left out": [float(len(night.files.left_out)) for night in nights],
    }
    cells = [(night.night, *(f"{int(v[k])}" for v in counts.values())) for k, night in enumerate(nights)]
    files = PageTable("Files by night", ("night", *counts), cells, names=1)
    figures.append(_figure("Files by fate", nights, counts, "files", files, bars=True))
    return PageSection("Rows and files", figures=figures)


def _files(store: Store) -> PageSection:
    section = PageSection("Quarantine")
    try:
        entries = list(store.ledger().entries.values())
    except SieveError as error:
        section.missing.append(str(error))
        return section
    counts = Counter(entry.status or "seen" for entry in entries)
    section.tables.append(
        PageTable("All files by fate", ("fate", "files"), [(k, f"{n:,}") for k, n in counts.items()], names=1)
    )
    kept = [entry for entry in entries if entry.status in QUARANTINE]
    rows = [(PurePosixPath(entry.name).name, entry.status, entry.night, entry.note) for entry in kept]
    if rows:
        section.tables.append(PageTable("In quarantine", ("file", "status", "night", "why"), rows, names=4))
    else:
        section.missing.append("No file is in quarantine.")
    return section


def _time(nights: list[NightRecord]) -> PageSection:
    known = [night for night in nights if night.seconds]
    section = PageSection("Seconds and reads")
    if not known:
        section.missing.append("No night says what it took.")
        return section
    parts = {phase: [(night.seconds or {}).get(phase, 0.0) for night in known] for phase in PHASES_OF_NIGHT}
    total = [(night.seconds or {}).get("total", sum(v[k] for v in parts.values())) for k, night in enumerate(known)]
    parts["other"] = [max(0.0, t - sum(v[k] for v in list(parts.values()))) for k, t in enumerate(total)]
    rows = [
        (night.night, *(number(v[k], 3) for v in parts.values()), number(total[k], 3)) for k, night in enumerate(known)
    ]
    table = PageTable("Seconds by phase", ("night", *parts, "total"), rows, names=1)
    section.figures.append(_figure("Seconds by phase", known, parts, "seconds", table, bars=True))
    read = {"reads": [np.nan if night.passes is None else night.passes for night in known]}
    settled = [night.settled for night in known]
    cells = [(night.night, number(read["reads"][k], 3), share(settled[k])) for k, night in enumerate(known)]
    table = PageTable("Reads by night", ("night", "reads", "settled by yesterday's model"), cells, names=1)
    section.figures.append(_figure("Reads of the data", known, read, "reads", table))
    return section


def _weights(store: Store, nights: list[NightRecord]) -> PageSection:
    """Compare the weights of the last two published models that are still there."""
    section = PageSection("Weights that moved")
    names = [night.night for night in nights if night.status == PUBLISHED and (store.runs / night.night).is_dir()][-2:]
    if len(names) < 2:
        section.missing.append("There are no two published runs any more to compare (keep: runs in job.yaml).")
        return section
    try:
        runs = [open_run(store.runs / name) for name in names]
        if not all(isinstance(run, Run) and run.spec.kernel == "linear" for run in runs):
            section.missing.append("Only linear models of two classes have weights to compare.")
            return section
        moved = moved_weights(*(run.best for run in reversed(runs)))  # type: ignore[arg-type]
    except SieveError as error:
        section.missing.append(str(error))
        return section
    rows = [(name, f"{one:.4g}", f"{two:.4g}", f"{one - two:+.4g}") for name, one, two in moved]
    section.tables.append(
        PageTable(f"From {names[0]} to {names[1]}", ("feature", names[1], names[0], "moved"), rows, names=1)
    )
    return section


def _figure(
    title: str,
    nights: list[NightRecord],
    parts: dict[str, list[float]],
    label: str,
    table: PageTable,
    bars: bool = False,
) -> Figure:
    names = [night.night for night in nights]
    draw = partial(charts.by_night, nights=names, parts=parts, label=label, bars=bars)
    return Figure(title, f"{title}, {len(names)} nights from {names[0]} to {names[-1]}", draw, table)


def _value(scores: dict[str, float | None] | None, name: str) -> float:
    value = (scores or {}).get(name)
    return np.nan if value is None else value
