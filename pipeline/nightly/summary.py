"""A night for people: a page of Markdown."""

from __future__ import annotations

from pathlib import PurePosixPath

from pipeline.nightly.records import FAILED, HELD, PUBLISHED, REFUSED, NightFiles, NightRecord


def summary(night: NightRecord) -> str:
    """Return the page for a night's record."""
    parts = [f"# Night {night.night}: {night.status}\n", _decision(night), _data(night), _files(night.files)]
    parts += [_model(night)]
    parts += [f"Note: {_plain(note)}.\n" for note in night.notes]
    if night.seconds:
        parts.append("Seconds: " + ", ".join(f"{name} {spent:.1f}" for name, spent in night.seconds.items()) + ".\n")
    return "\n".join(part for part in parts if part)


def _decision(night: NightRecord) -> str:
    if night.status == PUBLISHED:
        return f"`current` is now `runs/{night.night}`.\n"
    stays = f"`current` stays `runs/{_plain(night.reference)}`" if night.reference else "Nothing is published yet"
    if night.status == FAILED:
        return f"{stays}: {_plain(night.error or '')}\n\nThe next night starts afresh from what is published.\n"
    if night.status == HELD:
        return f"{stays}: it is held there until `svmsieve store release`.\n"
    if night.status == REFUSED:
        failed = [gate.gate for gate in night.gates if not gate.passed]
        why = "its certificate does not hold" if not night.verified else f"not passed: {'; '.join(failed)}"
        return f"{stays}: {why}.\n"
    return f"{stays}: no rows came or went.\n"


def _data(night: NightRecord) -> str:
    files = night.files
    if night.rows is None:
        return "There are no data yet.\n" if night.status != FAILED else ""
    return (
        f"{night.rows:,} rows, {night.features or 0:,} features: {files.rows_added:,} rows came "
        f"(files: {len(files.added)}), {files.rows_retired:,} retired (files: {len(files.retired)}).\n"
    )


def _files(files: NightFiles) -> str:
    rows = [(name, "late") for name in files.late]
    rows += [(item.file, f"{item.status}: {item.reason}") for item in files.left_out]
    if not rows:
        return ""
    shown = "\n".join(f"| `{_cell(PurePosixPath(name).name)}` | {_cell(said)} |" for name, said in rows)
    return f"| file | |\n|---|---|\n{shown}\n"


def _plain(text: str) -> str:
    """Return text for a page: a file's name may hold anything but a slash."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _cell(text: str) -> str:
    return _plain(text).replace("|", "/").replace("`", "'")


def _model(night: NightRecord) -> str:
    """Say what was trained; a night that trained nothing has no C."""
    if night.c is None or night.relative_gap is None:
        return ""
    found = f"Best of {night.models} models: C = {night.c:.6g}, relative gap {night.relative_gap:.1e}"
    found += f", certificate {'verified' if night.verified else f'DOES NOT HOLD: {night.problem}'}.\n"
    if night.settled is not None:
        gap = "not defined" if night.reference_gap is None else f"{night.reference_gap:.1e}"
        found += (
            f"\nYesterday's model settled {night.settled:.1%} of the rows before training "
            f"(its relative gap on today's data: {gap}).\n"
        )
    if night.scores:
        before = night.yesterday or {}
        rows = [
            f"| {name.replace('_', ' ')} | {_shown(value)} | {_shown(before[name]) if name in before else ''} |"
            for name, value in night.scores.items()
        ]
        found += "\n| held out | today | yesterday's model |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    for gate in night.gates:
        found += f"\n- gate `{gate.gate}`: {'passed' if gate.passed else '**not passed**'}"
    return found + ("\n" if night.gates else "")


def _shown(score: float | None) -> str:
    return "not defined" if score is None else f"{score:.4f}"
