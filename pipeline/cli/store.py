"""``svmsieve store``: what an operator needs to know of a nightly job's store, and may do to it."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from pipeline.cli.options import Local
from pipeline.cli.table import say, say_wrapped, table
from pipeline.progress import counted

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
BESIDE = " " * 14  # where what is said beside "published" goes on
_LONGEST = timedelta(days=36_525)


class Age(click.ParamType):
    """A length of time: 90m, 36h, 2d."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read an age."""
        found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([mhd])\s*", str(value))
        age = timedelta(**{_UNITS[found[2]]: float(found[1])}) if found else timedelta()
        if not timedelta() < age <= _LONGEST:
            self.fail(f"{value!r} is not an age; write for example 90m, 36h or 2d", param, ctx)
        return age


@click.group(epilog="\b\nExample:\n  svmsieve store status store --max-age 36h")
def store() -> None:
    """Look at the store of a nightly job, go back to an earlier model, see to the quarantine."""


@store.command(
    "status",
    epilog="\b\nExamples:\n  svmsieve store status store --max-age 36h\n"
    "  svmsieve store status store --metrics /var/lib/node_exporter/svmsieve.prom",
)
@click.argument("folder", metavar="STORE")
@click.option("--max-age", type=Age(), metavar="AGE", help="A published model older than this (36h) is stale.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--metrics", type=Local(), metavar="FILE", help="Write a Prometheus text file, too.")
def status_command(folder: str, max_age: timedelta | None, as_json: bool, metrics: str | None) -> None:
    """Show the published model, its age, the last nights, and what is in quarantine.

    Exit codes: 0 fine, 3 stale or refusing (a gate, a certificate or a hold keeps new models back, or nothing is
    published), 1 failing (the last night ended with an error). It can be asked while a night is at work. Times are UTC.
    """
    from pipeline.nightly.metrics import write_metrics
    from pipeline.nightly.operate import status
    from pipeline.nightly.standing import standing

    found = _opened(folder)
    how = standing(found, max_age)
    facts = status(found, how)
    if metrics is not None:
        write_metrics(found, Path(metrics), how)
    if as_json:
        click.echo(json.dumps(facts, indent=1))
    else:
        _show(facts)
    click.get_current_context().exit(how.code)


@store.command("rollback", epilog="\b\nExample:\n  svmsieve store rollback store 2026-11-14")
@click.argument("folder", metavar="STORE")
@click.argument("night", required=False)
def rollback_command(folder: str, night: str | None) -> None:
    """Publish the model of an earlier NIGHT again [default: the one published before], and hold it.

    While it is held, nights train, judge and record ("held", exit code 3) but publish nothing: until `svmsieve store
    release`.
    """
    from pipeline.nightly.operate import roll_back

    name = roll_back(_opened(folder), night)
    click.echo(f"current is now runs/{name}, and held there until: svmsieve store release {folder}")


@store.command("release", epilog="\b\nExample:\n  svmsieve store release store")
@click.argument("folder", metavar="STORE")
def release_command(folder: str) -> None:
    """Let nights publish again after a rollback. The next night trains again if the last one was held."""
    from pipeline.nightly.operate import release

    held = release(_opened(folder))
    click.echo("released: the next night may publish" if held else "nothing was held; nothing was changed")


@store.command("quarantine", epilog="\b\nExample:\n  svmsieve store quarantine store --retry clicks-2026-11-16.svm.gz")
@click.argument("folder", metavar="STORE")
@click.option("--retry", multiple=True, metavar="FILE", help="Have the next night try it again.")
@click.option("--drop", multiple=True, metavar="FILE", help="Never try it again as it is, and list it no more.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def quarantine_command(folder: str, retry: tuple[str, ...], drop: tuple[str, ...], as_json: bool) -> None:
    """List the input files that could not be taken in, and why; or decide about them.

    A file in quarantine is not tried again until it changes, until what kept it out has changed, or until --retry.
    """
    from pipeline.nightly.operate import quarantine, release_from_quarantine

    found = _opened(folder)
    if retry or drop:
        for line in release_from_quarantine(found, retry, drop):
            say(line)
        return
    items = quarantine(found.ledger())
    if as_json:
        click.echo(json.dumps(items, indent=1))
    else:
        _show_quarantine(items)


def _opened(folder: str) -> Any:
    from pipeline.nightly.store import Store

    return Store.existing(Path(folder))


def _show(facts: dict[str, Any]) -> None:
    say_wrapped(f"{facts['store']}: {facts['state']}" + (f" ({facts['reason']})" if facts["reason"] else ""))
    published = facts["published"]
    if published:
        age = published["age_seconds"] / 3600
        rows = f", {published['rows']:,} rows" if published["rows"] is not None else ""
        at = f", C = {published['c']:.4g}" if published["c"] is not None else ""
        made = f"made {published['made']} ({age:,.1f} hours ago)"
        say_wrapped(f"  published   {published['night']}, {made}{rows}{at}", BESIDE)
    if facts["hold"]:
        click.echo("  hold        nights publish nothing until svmsieve store release")
    if facts["under_way"]:
        say_wrapped("  under way   a night is at work, or was stopped and will be completed by the next", BESIDE)
    if facts["nights"]:
        click.echo()
        nights = [
            (n["night"], n["status"], n.get("ended", ""), f"{n['rows']:,}" if "rows" in n else "")
            for n in facts["nights"]
        ]
        table(("night", "status", "ended", "rows"), nights, right=(3,))
        for night in facts["nights"]:
            if "error" in night:
                say_wrapped(f"  {night['night']} failed: {night['error']}", "    ")
    if facts["quarantine"]:
        click.echo()
        _show_quarantine(facts["quarantine"])
    for problem in facts["damage"]:
        say_wrapped(f"  {problem}", "    ")


def _show_quarantine(items: list[dict[str, str]]) -> None:
    say(f"in quarantine: {counted(len(items), 'file')}")
    for item in items:
        say_wrapped(f"  {item['file']}: {item['status']} since {item['night']} ({item['reason']})", "    ")
