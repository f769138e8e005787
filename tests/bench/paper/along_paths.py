"""Figure 5: screening rates of BT1 and IT along eps-paths to C = 10^4, from what the runs have kept."""

from __future__ import annotations

from functools import partial

import numpy as np

from pipeline.report.over_c import over_c
from pipeline.report.parts import Figure, PageTable, number, share
from tests.bench.paper import draw
from tests.bench.paper.exhibit import PRINTED, Claim, Effort, Exhibit, exhibit, named
from tests.bench.paper.paths import CutPath, Paths
from tests.bench.paper.sets import Sets

RULES = {"BT1": "bt1", "IT": "it"}
BUNDLED = "D01"  # in place of sets that are not here


def rates(path: CutPath) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the C after the first, which a closed form solves, and the rates of the rules there."""
    found = over_c(path.run)
    return found.c[1:], {name: (found.rules[rule] / found.off_margin)[1:] for name, rule in RULES.items()}


def figure5(sets: Sets, effort: Effort, paths: Paths) -> Exhibit:
    """Draw a panel a set and kernel."""
    printed = PRINTED["figure5"]
    lead = (
        f"Rates at every C of our own eps-paths (eps {printed['epsilon']:g}, gap 1e-4), from the model before. "
        "BT2's part of IT is of the rows at their bound there, which costs no pass. Breast cancer, which is always "
        "here, is added."
    )
    made = exhibit("figure5", "screening rates along the path", lead, ("set", "kernel", "C", *RULES))
    below, points = 0, 0
    for rows, kernel, path in paths.along(sets, [*printed["sets"], BUNDLED], made.section.missing):
        cs, found = rates(path)
        below += int(np.count_nonzero(found["IT"] < found["BT1"]))
        points += cs.size
        made.rows += [(rows.key, kernel, *line) for line in zip(cs, *found.values(), strict=True)]
        cells = [(number(float(c)), *(share(float(v[k])) for v in found.values())) for k, c in enumerate(cs)]
        title = f"{rows.title}, {named(kernel)}, the path"
        said = f"Screening rates of BT1 and IT at each C of the path; {path.said}; {rows.said}"
        drawing = partial(draw.rates, at=cs, found=found, label="C")
        table = PageTable(f"Rates by C: {path.said}", ("C", *found), cells)
        made.section.figures.append(Figure(title, said, drawing, table, width=4.2, height=2.9))
    found_below = f"below at {below} of {points} C"
    made.claims.append(Claim("IT's rate is never below BT1's", below == 0, found_below))
    return made.finish()
