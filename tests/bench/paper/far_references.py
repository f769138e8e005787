"""Figure 4: screening rates of BT1, BT2 and IT at C = 10, by how far the reference is away: C_ref/C in (0, 1]."""

from __future__ import annotations

from functools import partial

import numpy as np

from pipeline.report.parts import Figure, PageTable, share
from tests.bench.paper import draw
from tests.bench.paper.exact import Exact
from tests.bench.paper.exhibit import KERNELS, PRINTED, Claim, Effort, Exhibit, exhibit, named
from tests.bench.paper.kept import Kept
from tests.bench.paper.sets import PaperSet, Sets
from tests.in_memory.screening import screen

RULES = {"BT1": "bt1", "BT2": "bt2", "IT": "it"}


def rates(rows: PaperSet, kernel: str, ratios: tuple[float, ...]) -> dict[str, list[float]]:
    """Return the rate of each rule at each ratio; a verdict that the optimum contradicts is an error."""
    c, exact = PRINTED["figure4"]["c"], Exact(rows, kernel)
    references = [exact.optimum(ratio * c).pair for ratio in ratios]
    there = exact.optimum(c)
    return {
        name: [there.rate(screen(exact.rows, pair, c, rule).verdicts) for pair in references]
        for name, rule in RULES.items()
    }


def figure4(sets: Sets, effort: Effort, kept: Kept) -> Exhibit:
    """Draw a panel a set and kernel."""
    c = PRINTED["figure4"]["c"]
    lead = (
        f"Rules at C = {c} from optima at C_ref. The rate is the paper's: rows decided over rows that are not on the "
        "margin at the optimum. Every verdict was held against the optimum. Where no row is at its bound at C_ref any "
        "more, the two balls touch in the new optimum, and IT decides all that can be decided (D02, gamma 10/d)."
    )
    made = exhibit("figure4", "screening rates by C_ref/C", lead, ("set", "kernel", "C_ref/C", *RULES))
    falls, steps, looser = 0, 0, 0
    for rows in sets.those_here(PRINTED["figure4"]["sets"], made.section.missing):
        for kernel in KERNELS:
            found = kept.of(f"figure4 {rows.key} {kernel}", partial(rates, rows, kernel, effort.ratios))
            lines = list(zip(effort.ratios, *found.values(), strict=True))
            made.rows += [(rows.key, kernel, *line) for line in lines]
            falls += sum(int(np.count_nonzero(np.diff(values) < 0)) for values in found.values())
            steps += len(found) * (len(effort.ratios) - 1)
            looser += int(np.count_nonzero(np.array(found["IT"]) < np.maximum(found["BT1"], found["BT2"])))
            cells = [(f"{line[0]:g}", *map(share, line[1:])) for line in lines]
            table = PageTable("Rates by ratio", ("C_ref/C", *found), cells)
            title = f"{rows.title}, {named(kernel)}"
            said = f"Screening rates at C = {c} from references at a share of it, {rows.n:,} rows ({rows.said})"
            drawing = partial(draw.rates, at=effort.ratios, found=found, label="C_ref / C")
            made.section.figures.append(Figure(title, said, drawing, table, width=4.2, height=2.9))
    points = len(made.rows)
    text = "IT is above both others always"
    made.claims.append(Claim(text, looser == 0, f"below the better ball at {looser} of {points} points"))
    text = "rates rise with C_ref/C in most cases"
    made.claims.append(Claim(text, falls < steps / 2, f"they fall at {falls} of {steps} steps to a larger ratio"))
    return made.finish()
