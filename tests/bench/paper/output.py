"""Everything as files: one HTML page, and an SVG and a CSV a figure or table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from pipeline.draw.canvas import drawn
from pipeline.files import replacing
from pipeline.report.page import html, made_by
from pipeline.report.parts import Command, Page, PageSection
from tests.bench.paper.draw import panels
from tests.bench.paper.exhibit import Effort, Exhibit

COLUMNS = 4  # panels in a row of an SVG file, a kernel each
TITLE = "Safe Sample Screening for Support Vector Machines, again"


def page_of(exhibits: Sequence[Exhibit], effort: Effort, command: str, to_come: Sequence[str] = ()) -> Page:
    """Return the page, which says what is still to come."""
    claims = [claim for each in exhibits for claim in each.claims]
    broken = [claim for claim in claims if not claim.holds]
    verdict = f"{len(claims) - len(broken)} of {len(claims)} claims of the paper that were checked hold here"
    named = [each.section.heading.split(":")[0] for each in exhibits if not all(claim.holds for claim in each.claims)]
    verdict += f"; those that do not are with {', '.join(named)}" if named else ""
    how = {"": "", "--quick": " with --quick: fewer C, smaller stand-ins", "--full": " with --full"}[effort.name]
    about = PageSection(
        "How this was made",
        f"On {date.today().isoformat()}{how}. The paper is Ogawa, Suzuki, Suzumura, Takeuchi (2014); of its figures "
        "only the text is compared, which has no curves. Seconds are never compared with those of 2014. What takes "
        f"too long was cut, and each place says so: a path after {effort.path:g} s of CPU, table 4 at the first C that "
        f"ends after {effort.cell:g} s for a set and kernel, one linear solve there after {effort.solve:g} s, one by "
        f"LIBSVM after a million steps; stand-ins have scale {effort.scale:g}.",
        commands=[Command("Made again by", command)],
        missing=[f"Not finished yet: {', '.join(to_come)}. The same command goes on."] if to_come else [],
    )
    return Page(TITLE, f"{verdict}.", not broken, [*(each.section for each in exhibits), about], made_by())


def write(exhibits: Sequence[Exhibit], effort: Effort, command: str, out: Path, to_come: Sequence[str] = ()) -> Path:
    """Write page, SVG and CSV into a folder; return the page's path."""
    out.mkdir(parents=True, exist_ok=True)
    for each in exhibits:
        _put(out / f"{each.name}.csv", _csv(each))
        if each.section.figures:
            draw, width, height = panels(each.section.figures, COLUMNS)
            _put(out / f"{each.name}.svg", drawn(draw, ".svg", width, height))
    page = out / "index.html"
    _put(page, html(page_of(exhibits, effort, command, to_come)))
    return page


def _put(path: Path, content: bytes) -> None:
    with replacing(path) as stream:
        stream.write(content)


def _csv(each: Exhibit) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(each.header)
    writer.writerows(["" if x is None else f"{x:.6g}" if isinstance(x, float) else x for x in row] for row in each.rows)
    return text.getvalue().encode()
