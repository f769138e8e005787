"""Table 4: what the six approaches take along eps-paths, over what Full takes, beside the printed ratios."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from pipeline.report.parts import Figure, PageTable, number, share
from tests.bench.paper import draw
from tests.bench.paper.approaches import LIBRARY, Comparison, compare
from tests.bench.paper.exhibit import APPROACHES, PRINTED, Claim, Effort, Exhibit, exhibit, named
from tests.bench.paper.kept import Kept
from tests.bench.paper.paths import CutPath, Paths
from tests.bench.paper.sets import PaperSet, Sets

Cell = tuple[PaperSet, str, Comparison]
ABOUT = 1.02  # times as long: times that differ by less are equal


def table4(sets: Sets, effort: Effort, paths: Paths, kept: Kept) -> Exhibit:
    """Compare on each set with each kernel."""
    figure = PRINTED["figure5"]
    lead = (
        f"CPU seconds over those of Full at C spread over the eps-path (eps {figure['epsilon']:g}, to C = 10^4): six "
        "settings of the same code, dcd for linear, LIBSVM without bias for RBF. The paper's are whole paths on the "
        "machines of 2014: ratios within a row are compared, and their order. LIBLINEAR beside the linear ones "
        "is cold, with -e 0.01, whatever gap that is."
    )
    header = ("set", "kernel", "C counted", "C asked", "of the path", *APPROACHES, LIBRARY, *_open_names())
    made = exhibit("table4", "six approaches along the path", lead, header)
    cells: list[Cell] = []
    keys, missing = list(PRINTED["table4"]), made.section.missing
    for rows, kernel, path in paths.along(sets, keys, missing, held=effort.kernel_cell):
        found = Comparison(**kept.of(f"table4 {rows.key} {kernel}", partial(_compared, rows, kernel, path, effort)))
        if not found.counted:
            missing.append(f"{rows.title}, {named(kernel)}: not all six arrived at any of {found.asked} C.")
            continue
        ratios, steps = found.ratios(), len(path.run.steps) - 1
        opened = [sum(found.left_open[name]) / found.counted for name in ("BT1", "IT")]
        numbers = [ratios.get(name, "") for name in (*APPROACHES, LIBRARY)]
        made.rows.append((rows.key, kernel, found.counted, found.asked, steps, *numbers, *opened))
        cells.append((rows, kernel, found))
    if cells:
        _show(made, cells)
        _judge(made, cells)
    return made.finish()


def _compared(rows: PaperSet, kernel: str, path: CutPath, effort: Effort) -> dict[str, Any]:
    """Compare, and say how far that went."""
    found = compare(rows, kernel, path, effort)
    went = f"{found.counted} of {found.asked} C asked, {len(path.run.steps) - 1} of the path"
    print(f"  {rows.title}, {named(kernel)}: {went}", flush=True)
    return asdict(found)


def _open_names() -> tuple[str, str]:
    return "left open by BT1", "left open by IT"


def _title(cell: Cell) -> str:
    rows, kernel, _ = cell
    return f"{rows.title}, {kernel}"


def _show(made: Exhibit, cells: list[Cell]) -> None:
    lines = []
    for (rows, kernel, found), row in zip(cells, made.rows, strict=True):
        ratios, printed = found.ratios(), PRINTED["table4"][rows.key][kernel]
        counts = (f"{found.counted} of {row[4]}", f"{found.counted} of {found.asked}")
        ours = [number(ratios[name], 2) if name in ratios else "–" for name in (*APPROACHES, LIBRARY)]
        lines.append((rows.title, kernel, "here", *ours, *map(share, row[-2:]), *counts))
        theirs = [number(seconds / printed[0], 2) for seconds in printed]
        lines.append(("", "", f"printed ({number(float(printed[0]), 6)} s)", *theirs, *["–"] * 5))
    header = ("set", "kernel", "Full = 1", *APPROACHES, LIBRARY, "open BT1", "open IT", "C of path", "arrived")
    table = PageTable("Time over Full's, here and printed", header, lines, names=3)
    made.section.tables.append(table)
    ratios = [found.ratios() for _, _, found in cells]
    here = [{name: found[name] for name in APPROACHES} for found in ratios]
    paper = [PRINTED["table4"][rows.key][kernel] for rows, kernel, _ in cells]
    drawing = partial(
        draw.ratios,
        names=[_title(cell) for cell in cells],
        here=here,
        paper=[[seconds / row[0] for seconds in row] for row in paper],
    )
    height = 1.4 + 0.34 * len(cells)
    said = f"Time of five approaches over that of Full on {len(cells)} problems, here and as printed"
    made.section.figures.append(Figure("Time over that of Full", said, drawing, table, width=5.6, height=height))


def _judge(made: Exhibit, cells: list[Cell]) -> None:
    """Hold the order against what the paper says of it."""
    ratios = [found.ratios() for _, _, found in cells]
    alone = [_title(cell) for cell, r in zip(cells, ratios, strict=True) if r["Shrink"] > min(r["BT1"], r["IT"])]
    made.claims.append(Claim("shrinking alone beats screening alone", not alone, _but_for(alone, len(cells))))
    both = [
        _title(cell)
        for cell, r in zip(cells, ratios, strict=True)
        if min(r["Shrink+BT1"], r["Shrink+IT"]) > ABOUT * r["Shrink"] and _title(cell) != "D07 news20, linear"
    ]
    text = "shrinking and screening (by the better rule) beat shrinking alone, except on D07 linear"
    made.claims.append(Claim(text, not both, _but_for(both, len(cells))))
    fewer = [_title(cell) for cell, row in zip(cells, made.rows, strict=True) if row[-1] > row[-2]]
    made.claims.append(Claim("IT leaves no more rows open than BT1", not fewer, _but_for(fewer, len(cells))))


def _but_for(names: list[str], count: int) -> str:
    return f"on all {count}" if not names else f"not on {len(names)} of {count}: {', '.join(names)}"
