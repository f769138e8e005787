"""The last section of a page: data, settings, what was spent, versions, and commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pipeline.draw.canvas import shown_name
from pipeline.report.commands import memory
from pipeline.report.parts import Command, PageSection, PageTable, number
from pipeline.runs.run import RunOf
from pipeline.spec import PathSpec


def about_section(run: RunOf[Any], commands: Sequence[Command]) -> PageSection:
    """Return what a run is of and was made by."""
    data, header, spec, default = run.header.data, run.header, run.spec, PathSpec()
    classes = data.classes or (", ".join(data.negative), ", ".join(data.positive))
    facts = [
        ("path", data.path),
        ("rows", f"{data.rows:,}"),
        ("features", f"{data.features:,}" + (" with the bias" if data.bias else "")),
        ("nonzeros", number(data.nnz)),
        ("bias", f"{data.bias:g}" if data.bias else "none"),
        ("classes", ", ".join(shown_name(each, 60) for each in classes[:20]) + (" ..." if len(classes) > 20 else "")),
        ("fingerprint", data.fingerprint),
        ("smallest C that matters (C_min)", number(header.c_min)),
    ]
    names = [field.name for field in fields(PathSpec) if field.name != "memory"]
    usual = {name: getattr(spec, name) == getattr(default, name) for name in names}
    settings = [
        (name.replace("_", " "), _setting(getattr(spec, name)), "default" if usual[name] else "") for name in names
    ]
    spent = [
        ("status", "finished" if run.is_finished else "not finished"),
        ("seconds", "–" if header.seconds is None else f"{header.seconds:.1f}"),
        ("memory", memory(run)),
        ("seal", header.seal or "none"),
    ]
    versions = list(header.versions.items())
    tables = [
        PageTable("Data", ("", ""), facts, names=2),
        PageTable("Settings", ("", "", ""), settings, names=3),
        PageTable("Run", ("", ""), spent, names=2),
        PageTable("Versions", ("", ""), versions, names=2),
    ]
    return PageSection("Data, settings, versions", tables=tables, commands=list(commands))


def _setting(value: Any) -> str:
    if isinstance(value, tuple) and len(value) > 8:
        return f"{len(value)} values from {value[0]:.4g} to {value[-1]:.4g}" if isinstance(value[0], float) else "..."
    if isinstance(value, tuple):
        return ", ".join(_setting(each) for each in value)
    return "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
