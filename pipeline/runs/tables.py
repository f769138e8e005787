"""A run as a table: a pandas frame with a row a step, and a small HTML table for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from pipeline.errors import MissingError

if TYPE_CHECKING:
    from pipeline.runs.run import RunOf

MOST_SHOWN = 10  # steps in HTML: the first and the last ones, and the best
TOLD = ("step", "c", "c_ref", "relative_gap", "primal", "dual", "n_rows", "n_free", "n_upper", "screened_zero")
TOLD_TOO = ("screened_upper", "survivors", "working_set", "rounds", "passes", "rule", "solver")


def rows_of(run: RunOf[Any]) -> list[dict[str, Any]]:
    """Return what there is to say of each step; what several classes do not have together is left out."""
    found, scores = [], run.scores
    for step, mine in zip(run.steps, scores, strict=False):
        row = {name: getattr(step, name) for name in (*TOLD, *TOLD_TOO) if hasattr(step, name)}
        parts = getattr(step, "parts", (step,))
        row["seconds"] = sum(part.seconds["total"] for part in parts)
        found.append(row | dict(mine or {}))
    return found


def frame_of(run: RunOf[Any]) -> Any:
    """Return a pandas frame, a row a step."""
    try:
        import pandas as pd  # noqa: PLC0415 - not needed otherwise
    except ImportError as error:
        raise MissingError("a frame needs pandas, which is not installed; pip install pandas") from error
    return pd.DataFrame(rows_of(run)).set_index("step") if run.steps else pd.DataFrame()


def html_of(run: RunOf[Any]) -> str:
    """Return a small table: C, gap, scores and rows of some steps; the best one is bold."""
    data, best = run.header.data, run.best_step
    rows, names = rows_of(run), list(run.scores[0] or ()) if run.steps and run.scores else []
    heads = ["C", "relative gap", *(name.replace("_", " ") for name in names), "free rows", "passes"]
    half = MOST_SHOWN // 2
    shown = [row for k, row in enumerate(rows) if k < half or k >= len(rows) - half or k == best]
    body = "".join(_row(row, names, row["step"] == best) for row in shown)
    left = f", {len(rows) - len(shown):,} of them not shown" if len(shown) < len(rows) else ""
    state = "" if run.is_finished else ", not finished"
    classes = f", {len(data.classes):,} classes" if data.classes else ""
    said = f"{run.path}: {data.rows:,} rows, {data.features:,} features{classes}; {len(rows):,} steps{left}{state}"
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f"<table><caption>{escape(said)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(row: dict[str, Any], names: list[str], is_best: bool) -> str:
    scores = ["" if row.get(name) is None else f"{row[name]:.4f}" for name in names]
    cells = [f"{row['c']:.6g}", f"{max(row['relative_gap'], 0.0):.1e}", *scores]
    cells += [f"{row['n_free']:,}", f"{row['passes']:.2f}"]
    mark = "b" if is_best else "span"
    return f"<tr>{''.join(f'<td><{mark}>{escape(cell)}</{mark}></td>' for cell in cells)}</tr>"
