"""``--columns``: what becomes of the columns of tables.

auto        what is in them says it (the default)
none        they are numbers, and features as they are
FILE.yaml   as the file says (``plan``)
DIR         as in the data set or the run there: rows that a model is to be tested on
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.files import is_folder
from pipeline.errors import SpecError
from pipeline.yaml_values import number

if TYPE_CHECKING:
    from pipeline.data.tables.encoding import Encoding
    from pipeline.data.tables.plan import TablePlan

AUTO, AS_THEY_ARE = "auto", "none"
BIAS = 1.0  # where nothing else is said


def with_columns(
    reading: ReadOptions, columns: str | TablePlan | Encoding, bias: float | None
) -> tuple[ReadOptions, float]:
    """Return how tables are read and the bias, given what is asked; a ``bias`` that is asked for beside it counts.

    What the bias of a table is that is yet to be learnt, the plan says: files of other formats have none.
    """
    if columns == AS_THEY_ARE:
        return reading, bias or 0.0
    from pipeline.data.tables.plan import TablePlan, read_plan  # noqa: PLC0415 - YAML, which few commands need

    plan = columns if isinstance(columns, TablePlan) else TablePlan()
    if isinstance(columns, str) and columns != AUTO:
        if is_folder(columns):
            encoding, usual = stored_encoding(Path(columns))
            return reading.encoded(encoding), usual if bias is None else bias
        plan = read_plan(columns)
    elif not isinstance(columns, str | TablePlan):
        if not hasattr(columns, "roles"):  # an encoding is slow to import
            raise SpecError(f"columns is auto, none, or the name of a file of columns or of a folder, not {columns!r}")
        return reading.encoded(columns), BIAS if bias is None else bias
    names = {"label_column": plan.label, "weight_column": plan.weight, "group_column": plan.group}
    for name, asked in names.items():
        given, default = getattr(reading, name), getattr(ReadOptions, name)
        if asked is not None and given not in (default, asked):
            option = "--group" if name == "group_column" else f"--{name.replace('_', '-')}"
            raise SpecError(f"{option} {given} is not what {columns} says, {asked}; leave one of them out")
    known = {name: asked for name, asked in names.items() if asked is not None}
    return replace(reading, table=plan.with_bias(bias), **known), bias or 0.0  # type: ignore[arg-type]


def stored_encoding(folder: Path) -> tuple[Encoding, float]:
    """Return the encoding of the data set, or of the run's data, in a folder, and the bias."""
    import json  # noqa: PLC0415

    from pipeline.data.shards.manifest import MANIFEST, read_manifest  # noqa: PLC0415 - which knows encodings
    from pipeline.data.tables.stored import from_json  # noqa: PLC0415 - as above

    header, found, bias = folder / "run.json", None, 0.0
    try:
        if (folder / MANIFEST).is_file():
            manifest = read_manifest(folder)
            found, bias = manifest.encoding, manifest.bias
        elif header.is_file():
            data = json.loads(header.read_bytes())["data"]
            found = None if data.get("table") is None else from_json(data["table"])
            bias = number(data["bias"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise SpecError(f"{header}: cannot be read ({said}); name another data set or run in --columns") from error
    if found is None:
        problem = "is neither a data set nor a run whose table was encoded"
        raise SpecError(f"--columns {folder} {problem}; name auto, none, a file of columns, or such a folder")
    return found, bias
