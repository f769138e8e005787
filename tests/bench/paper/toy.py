"""Figure 1: the toy example, 1,000 points of two normal laws, and which of them IT identifies at C = 10 from C = 5."""

from __future__ import annotations

from functools import partial

import numpy as np

from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.report.parts import Figure, PageTable, number, share
from tests.bench.paper import draw
from tests.bench.paper.exact import Exact
from tests.bench.paper.exhibit import PRINTED, Claim, Effort, Exhibit, exhibit
from tests.bench.paper.sets import PaperSet, Sets
from tests.in_memory.screening import screen

RULES = {"IT": "it", "BT1": "bt1", "BT2": "bt2"}


def toy(seed: int) -> PaperSet:
    """500 points of each class from N(+-(0.5, 0.5), 1.5^2 I)."""
    rng = np.random.default_rng(seed)
    half = PRINTED["figure1"]["rows"] // 2
    x = np.vstack([rng.normal(side, 1.5, (half, 2)) for side in (0.5, -0.5)])
    return PaperSet("toy", "toy", x, np.repeat([1.0, -1.0], half), f"draw {seed}")


def figure1(sets: Sets, effort: Effort) -> Exhibit:
    """Draw the first toy; count over several."""
    del sets
    printed = PRINTED["figure1"]
    lead = (
        f"IT at C = {printed['c']} from the optimum at C_ref = {printed['c_ref']}; the line is the optimal classifier, "
        "dashed where margins are 1. The paper shades the region R only; here L has a colour, too."
    )
    made = exhibit("figure1", "the toy example", lead, ("draw", "rule", "ZERO", "UPPER", "identified"))
    for seed in range(effort.toys):
        rows = toy(seed)
        exact = Exact(rows)
        pair, there = exact.optimum(printed["c_ref"]).pair, exact.optimum(printed["c"])
        for name, rule in RULES.items():
            found = screen(exact.rows, pair, printed["c"], rule).verdicts
            there.rate(found)
            zero, upper = (float(np.mean(found == verdict)) for verdict in (ZERO, UPPER))
            made.rows.append((seed, name, zero, upper, float(np.mean(found != KEEP))))
            if seed == 0 and name == "IT":
                drawing = partial(draw.toy, x=rows.x, verdicts=found, w=there.pair.vectors[0])
    shares = {name: [row[4] for row in made.rows if row[1] == name] for name in RULES}
    cells = [(number(row[0]), row[1], *map(share, row[2:])) for row in made.rows]
    table = PageTable("Identified rows by draw", ("draw", "rule", "R (ZERO)", "L (UPPER)", "both"), cells, names=2)
    said = f"1,000 points in the plane; IT identifies {share(shares['IT'][0])} of them before training"
    made.section.figures.append(Figure("The toy example, draw 0", said, drawing, table, width=4.4, height=4.4))
    low, high = min(shares["IT"]), max(shares["IT"])
    text = "more than 80 % of the points are identified by IT"
    made.claims.append(Claim(text, low > printed["share"], f"{share(low)} to {share(high)} in {effort.toys} draws"))
    best = [max(pair) for pair in zip(shares["BT1"], shares["BT2"], strict=True)]
    never = all(it >= ball for it, ball in zip(shares["IT"], best, strict=True))
    found_best = f"better ball {share(min(best))} to {share(max(best))}"
    made.claims.append(Claim("IT identifies no fewer than either ball", never, found_best))
    return made.finish()
