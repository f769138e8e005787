"""Table 2: the data sets, as printed and as they are here."""

from __future__ import annotations

from functools import partial

import numpy as np

from pipeline.data.registry.synthetic import design
from pipeline.report.parts import Figure, PageTable, number
from tests.bench.paper import draw
from tests.bench.paper.exhibit import PRINTED, Effort, Exhibit, exhibit
from tests.bench.paper.sets import MissingError, Sets


def table2(sets: Sets, effort: Effort) -> Exhibit:
    """List them."""
    del effort
    lead = "What is printed of each set, and what is here. Those of figure 6 alone are at the end."
    header = ("set", "name", "n printed", "d printed", "n here", "d here", "positive rows", "what it is here")
    made = exhibit("table2", "the data sets", lead, header)
    names, printed, here, lines = [], [], [], []
    for key, facts in PRINTED["table2"].items():
        n, d, positive = None, None, None
        try:
            rows = sets.find(key)
            n, d, positive, said = rows.n, int(rows.x.shape[1]), int(np.count_nonzero(rows.y > 0)), rows.said
        except MissingError as missing:
            said = str(missing)
            if name := facts.get("stand_in"):
                plan = design(name)
                n, d, said = plan.rows, plan.features, f"a generated stand-in, {name}, of the same shape; {said}"
        made.rows.append((key, facts["name"], facts["n"], facts["d"], n, d, positive, said))
        lines.append((key, facts["name"], said, *map(number, (facts["n"], facts["d"], n, d, positive))))
        names.append(key)
        printed.append((facts["n"], facts["d"]))
        here.append((n or np.nan, d or np.nan))
    head = ("set", "name", "what it is here", "n printed", "d printed", "n here", "d here", "positive")
    table = PageTable("The data sets, as printed and here", head, lines, names=3)
    made.section.tables.append(table)
    drawing = partial(draw.sizes, names=names, printed=np.array(printed, float), here=np.array(here, float))
    said = "Rows and features of each data set, as printed (hollow) and here (filled)"
    made.section.figures.append(Figure("Rows and features", said, drawing, table, width=4.6, height=3.4))
    return made.finish()
