"""``svmsieve nightly``: the job that runs every night."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.options import quiet_option
from pipeline.cli.table import say
from pipeline.errors import JobError
from pipeline.progress import counted, progress, score

if TYPE_CHECKING:
    from pipeline.nightly.records import NightRecord

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
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), help="Run as of this day [default: today, UTC].")
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
    run completes it; failed, the next one starts afresh. All days are UTC days. Exit codes: 0 the last training is
    published; 3 refusing: a gate, the certificate or a hold keeps it back, or nothing is published yet; 1 the last
    night failed, which only files that cannot be taken in make it, too; 2 wrong usage or a job file with an error. 1
    and 3 stay until a night succeeds, whether or not anything is new; run again on the same day once the cause is
    repaired.
    """
    from pipeline.cli import told
    from pipeline.nightly import days
    from pipeline.nightly.job import read_job
    from pipeline.nightly.night import plan_night, run_nightly
    from pipeline.nightly.standing import standing
    from pipeline.nightly.store import Store

    context = click.get_current_context()
    try:
        plan = read_job(job)
    except JobError as error:
        raise click.UsageError(str(error), context) from error
    plan = replace(plan, scheduler=scheduler or plan.scheduler)
    today = date.date() if date else days.today()
    if dry_run:
        _show_plan(plan_night(plan, today), as_json)
        return

    def ended(night: NightRecord, trouble: str) -> None:
        for text in [json.dumps(night.to_json())] if as_json else _said(night):
            say(text)
        if trouble:
            say(f"svmsieve: {trouble}", err=True)

    with progress(quiet) as listen:
        done = run_nightly(plan, today, wait, listen, ended, stopped=lambda: bool(told.number))
    how = standing(Store(plan.store))
    if not done:
        click.echo(json.dumps(None) if as_json else "nothing new; nothing was changed")
    if how.code:
        say(f"svmsieve: {how.state}: {how.reason}", err=True)
    context.exit(how.code)


def _said(night: NightRecord) -> list[str]:
    """Say a night in a few lines."""
    parts = [f"{night.night}: {night.status}"]
    if night.rows is not None:
        came = f"{night.files.rows_added:,} came, {night.files.rows_retired:,} retired"
        parts.append(f"{night.rows:,} rows ({came})")
    if night.c is not None:
        parts.append(f"C = {night.c:.4g}, relative gap {night.relative_gap:.1e}")
        if night.settled is not None:
            parts.append(f"{night.settled:.1%} settled by yesterday's model")
        if night.scores:
            before = f" (yesterday's model {score(night.yesterday.get('accuracy'))})" if night.yesterday else ""
            parts.append(f"accuracy {score(night.scores.get('accuracy'))}{before}")
    texts = [*night.notes]
    texts += [f"{item.file}: {item.status} ({item.reason})" for item in night.files.left_out]
    texts += [f"gate not passed: {gate.gate} ({gate.why})" for gate in night.gates if not gate.passed]
    if night.error:
        texts.append(night.error)
    if night.problem:
        texts.append(f"certificate does not hold: {night.problem}")
    return [", ".join(parts), *(f"  {text}" for text in texts)]


def _show_plan(plan: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(plan))
        return
    at = plan["train_at"] if isinstance(plan["train_at"], str) else ", ".join(f"{c:.4g}" for c in plan["train_at"])
    click.echo(f"night {plan['night']}: would add {counted(len(plan['add']), 'file')}, retire {len(plan['retire'])}")
    for name in plan["add"]:
        say(f"  add {name}{' (late)' if name in plan['late'] else ''}")
    for item in plan["left_out"]:
        say(f"  leave out {item['file']}: {item['status']} ({item['reason']})")
    for name in plan["retire"]:
        say(f"  retire {name}")
    for note in plan["notes"]:
        say(f"  {note}")
    if plan["hold"]:
        click.echo("  publish nothing: held (svmsieve store release)")
    click.echo(f"  train at {at}" + (f", from runs/{plan['reference']}" if plan["reference"] else ""))
    for name in plan["remove_runs"]:
        click.echo(f"  remove run {name}")
