"""A night for people: a page of Markdown."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any


def summary(line: dict[str, Any]) -> str:
    """Return the page for a night's line of the history."""
    parts = [f"# Night {line['night']}: {line['status']}\n", _decision(line), _data(line), _files(line["files"])]
    if line["status"] != "nothing new":
        parts += [_model(line)]
    parts.append("Seconds: " + ", ".join(f"{name} {spent:.1f}" for name, spent in line["seconds"].items()) + ".\n")
    return "\n".join(part for part in parts if part)


def _decision(line: dict[str, Any]) -> str:
    if line["status"] == "published":
        return f"`current` is now `runs/{line['night']}`.\n"
    stays = f"`current` stays `runs/{line['reference']}`" if line["reference"] else "Nothing is published yet"
    if line["status"] == "refused":
        failed = [gate["gate"] for gate in line["gates"] if not gate["passed"]]
        why = "its certificate does not hold" if not line["verified"] else f"not passed: {'; '.join(failed)}"
        return f"{stays}: {why}.\n"
    return f"{stays}: no rows came or went.\n"


def _data(line: dict[str, Any]) -> str:
    files = line["files"]
    if "rows" not in line:
        return "There are no data yet.\n"
    return (
        f"{line['rows']:,} rows, {line['features']:,} features: {files['rows_added']:,} rows came "
        f"(files: {len(files['added'])}), {files['rows_retired']:,} retired (files: {len(files['retired'])}).\n"
    )


def _files(files: dict[str, Any]) -> str:
    rows = [(name, "late") for name in files["late"]]
    rows += [(item["file"], f"{item['status']}: {item['reason']}") for item in files["left_out"]]
    if not rows:
        return ""
    shown = "\n".join(f"| `{PurePosixPath(name).name}` | {said.replace('|', '/')} |" for name, said in rows)
    return f"| file | |\n|---|---|\n{shown}\n"


def _model(line: dict[str, Any]) -> str:
    found = f"Best of {line['models']} models: C = {line['c']:.6g}, relative gap {line['relative_gap']:.1e}"
    found += f", certificate {'verified' if line['verified'] else 'DOES NOT HOLD: ' + line['problem']}.\n"
    if line["settled"] is not None:
        found += (
            f"\nYesterday's model settled {line['settled']:.1%} of the rows before training "
            f"(its relative gap on today's data: {line['reference_gap']:.1e}).\n"
        )
    if line["scores"]:
        before = line["yesterday"] or {}
        rows = [
            f"| {name.replace('_', ' ')} | {_score(value)} | {_score(before[name]) if name in before else ''} |"
            for name, value in line["scores"].items()
        ]
        found += "\n| held out | today | yesterday's model |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    for gate in line["gates"]:
        found += f"\n- gate `{gate['gate']}`: {'passed' if gate['passed'] else '**not passed**'}"
    return found + ("\n" if line["gates"] else "")


def _score(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4f}"
