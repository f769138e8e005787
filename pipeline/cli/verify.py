"""``svmsieve verify``: is a run the one that was made, and is every certificate of it true?"""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.options import quiet_option, reading_options, scheduler_option, workers_option
from pipeline.cli.path import both_opened
from pipeline.cli.table import say
from pipeline.errors import RunError, SieveError
from pipeline.progress import counted, progress

if TYPE_CHECKING:
    from pipeline.runs.data_record import DataRecord
    from pipeline.verify.verify import Finding

EXAMPLES = """
\b
Examples:
  svmsieve verify run breast_cancer
  svmsieve verify run shards --step 12 --json
  svmsieve verify run rows.svm --bias 1               # read the data as svmsieve path did
  svmsieve verify run shards --scheduler tcp://scheduler:8786
"""


class StepNumber(click.ParamType):
    """The number of a step, or ``all``."""

    name = "step"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Read a step; all is None."""
        if value == "all":
            return None
        if not str(value).isdecimal():
            self.fail(f"{value!r} is neither the number of a step nor all", param, ctx)
        return int(value)


@click.command("verify", epilog=EXAMPLES)
@click.argument("run")
@click.argument("data")
@click.option("--step", type=StepNumber(), default="all", show_default=True, metavar="N|all", help="Which models.")
@click.option("--validation", metavar="DATA2", help="The data that svmsieve path --validation scored on.")
@scheduler_option
@workers_option
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print every step's recomputed values as JSON.")
@quiet_option
def verify_command(run: str, data: str, step: int | None, as_json: bool, quiet: bool, **options: Any) -> None:
    """Compute every certificate of RUN again, from its stored models and all rows of DATA.

    Primal, dual and gap are enclosed in exact arithmetic by code that training does not use, and compared with what the
    run says; so are counts, verdicts, scores, the C of the steps and the chain that ties them together. Folds of a
    cross-validation are verified too. Exit code 1 if anything does not hold.
    """
    from pipeline.engine.engine import Engine
    from pipeline.verify.classes import verify_any

    with progress(quiet) as listen, Engine(options["scheduler"], options["workers"]) as engine:
        source, judge = both_opened(data, options, listen, _about(run))
        found = verify_any(engine, run, source, step, listen, judge)
    failed = [finding for finding in found if not finding.holds]
    if as_json:
        steps = [asdict(finding) | {"holds": finding.holds} for finding in found]
        click.echo(json.dumps({"run": run, "holds": not failed, "findings": steps}, allow_nan=False))
    if failed:
        more = f" (and {counted(len(failed) - 1, 'more step')})" if len(failed) > 1 else ""
        raise RunError(f"{failed[0]}{more}; do not trust the run: train again into another --out")
    if not as_json:
        for name, group in groupby(found, key=lambda finding: finding.run):
            _show(name, list(group))


def _about(run: str) -> DataRecord | None:
    """Return what a run says of its data; of one that cannot be read it is for ``verify_any`` to say why."""
    from pipeline.runs.directory import open_run

    try:
        return open_run(run).header.data
    except SieveError:
        return None


def _show(run: str, found: list[Finding]) -> None:
    worst = max(finding.relative_gap or 0.0 for finding in found)
    verb = "holds" if len(found) == 1 else "hold"
    say(f"{run}: {counted(len(found), 'certificate')} {verb} (largest relative gap {worst:.1e})")
