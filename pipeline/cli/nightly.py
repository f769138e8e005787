"""``svmsieve nightly``: the job that runs every night."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import click

from pipeline.cli.options import quiet_option
from pipeline.cli.progress import counted, progress
from pipeline.errors import JobError

NOT_PUBLISHED = 3
EXAMPLES = """
\b
Examples:
  svmsieve nightly job.yaml --dry-run                 # what would happen
  svmsieve nightly job.yaml
  svmsieve predict store/current new-rows.svm --out predictions.parquet
"""


@click.command("nightly", epilog=EXAMPLES)
@click.argument("job")
@click.option("--dry-run", is_flag=True, help="Say what would happen; change nothing.")
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Run as of this day [default: today].")
@click.option(
    "--wait", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS", help="Wait for another to finish."
)
@click.option("--scheduler", help="Instead of the job's: threads, processes, inline, or an address.")
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print the night's line of the history.")
def nightly_command(
    job: str, dry_run: bool, date: datetime | None, wait: float, scheduler: str | None, quiet: bool, as_json: bool
) -> None:
    """Take in new files, train from yesterday's model, publish if it is as good.

    JOB is a YAML file (deploy/job.yaml is an example). Run twice, the second changes nothing; killed anywhere, the next
    run completes it. Exit codes: 0 published or nothing new, 3 trained but not published because a gate or the
    certificate said no, 1 failed, 2 wrong usage or a job file with an error.
    """
    from pipeline.nightly.job import read_job
    from pipeline.nightly.night import REFUSED, plan_night, run_nightly

    context = click.get_current_context()
    try:
        plan = read_job(job)
    except JobError as error:
        raise click.UsageError(str(error), context) from error
    plan = replace(plan, scheduler=scheduler or plan.scheduler)
    today = (date or datetime.now()).date()
    if dry_run:
        _show_plan(plan_night(plan, today), as_json)
        return
    with progress(quiet) as listen:
        done = run_nightly(plan, today, wait, listen)
    if not done:
        click.echo(json.dumps(None) if as_json else "nothing new; nothing was changed")
    for line in done:
        click.echo(json.dumps(line, allow_nan=False) if as_json else _said(line))
    if done and done[-1]["status"] == REFUSED:
        context.exit(NOT_PUBLISHED)


def _said(line: dict[str, Any]) -> str:
    """Say a night in a few lines."""
    files = line["files"]
    parts = [f"{line['night']}: {line['status']}"]
    if "rows" in line:
        came = f"{files['rows_added']:,} came, {files['rows_retired']:,} retired"
        parts.append(f"{line['rows']:,} rows ({came})")
    if line["status"] != "nothing new":
        parts.append(f"C = {line['c']:.4g}, relative gap {line['relative_gap']:.1e}")
        if line["settled"] is not None:
            parts.append(f"{line['settled']:.1%} settled by yesterday's model")
        if line["scores"]:
            before = f" (yesterday's model {line['yesterday']['accuracy']:.4f})" if line["yesterday"] else ""
            parts.append(f"accuracy {line['scores']['accuracy']:.4f}{before}")
    text = ", ".join(parts)
    for item in files["left_out"]:
        text += f"\n  {item['file']}: {item['status']} ({item['reason']})"
    for gate in line.get("gates", ()):
        if not gate["passed"]:
            text += f"\n  gate not passed: {gate['gate']} ({gate['value']:.6g} against {gate['limit']:.6g})"
    if line.get("problem"):
        text += f"\n  certificate does not hold: {line['problem']}"
    return text


def _show_plan(plan: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(plan, allow_nan=False))
        return
    at = plan["train_at"] if isinstance(plan["train_at"], str) else ", ".join(f"{c:.4g}" for c in plan["train_at"])
    click.echo(f"night {plan['night']}: would add {counted(len(plan['add']), 'file')}, retire {len(plan['retire'])}")
    for name in plan["add"]:
        click.echo(f"  add {name}{' (late)' if name in plan['late'] else ''}")
    for item in plan["left_out"]:
        click.echo(f"  leave out {item['file']}: {item['status']} ({item['reason']})")
    for name in plan["retire"]:
        click.echo(f"  retire {name}")
    click.echo(f"  train at {at}" + (f", from runs/{plan['reference']}" if plan["reference"] else ""))
    for name in plan["remove_runs"]:
        click.echo(f"  remove run {name}")
