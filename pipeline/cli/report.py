"""``svmsieve report``: what a run, or a store of nights, has to show, as one HTML file or as a figure."""

from __future__ import annotations

from typing import Any

import click

from pipeline.cli.options import Local, quiet_option, reading_options, scheduler_option, workers_option
from pipeline.cli.path import opened
from pipeline.cli.table import say

EXAMPLES = """
\b
Examples:
  svmsieve report run --out report.html
  svmsieve report run --out report.html --compare other-run
  svmsieve report run --out report.html --data new-rows.svm          # score these, too
  svmsieve report run --figure validation --out curve.svg            # or .png, .pdf
  svmsieve report store --out history.html                           # the nights of svmsieve nightly
"""
FIGURES = ("validation", "weights", "screening", "time")


@click.command("report", epilog=EXAMPLES)
@click.argument("run")
@click.option(
    "--out", type=Local(), required=True, metavar="FILE", help="The file to write; an old one is replaced at once."
)
@click.option("--figure", type=click.Choice(FIGURES), help="Draw this one alone, as .svg, .png or .pdf.")
@click.option("--data", metavar="DATA", help="Rows to score: those left out of RUN, or all of other data.")
@click.option("--compare", metavar="RUN2", help="Another run, to stand beside it.")
@scheduler_option
@workers_option
@reading_options
@quiet_option
def report_command(
    run: str, out: str, figure: str | None, data: str | None, compare: str | None, quiet: bool, **options: Any
) -> None:
    """Write what RUN is worth as one HTML file that needs nothing else; or the nights of a store.

    Scores over C, certificates, screening, time, weights by name, and the chosen model on rows it was not trained on.
    All of it is in the run directory; the data are not needed. A run that is not finished shows what there is.
    """
    from pipeline.engine.engine import Engine
    from pipeline.progress import progress
    from pipeline.report.report import write_figure, write_report
    from pipeline.runs.directory import open_run

    if figure is not None:
        if data is not None or compare is not None:
            raise click.UsageError(
                "--data and --compare belong to a page, not to --figure", click.get_current_context()
            )
        write_figure(run, figure, out)
        say(f"{out}: {figure} of {run}")
        return
    if data is None:
        page = write_report(run, out, None, compare)
    else:
        with progress(quiet) as listen, Engine(options["scheduler"], options["workers"]) as engine:
            rows = opened(data, options, listen, like=open_run(run).header.data)
            page = write_report(run, out, rows, compare, engine)
    say(f"{out}: {page.verdict}")
