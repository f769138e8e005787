"""``svmsieve weights``: which features a linear model decides by."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from pipeline.cli.predict import c_option
from pipeline.cli.table import say, table
from pipeline.errors import RunError
from pipeline.progress import counted, progress

if TYPE_CHECKING:
    from pipeline.runs.weights import TopWeights

EXAMPLES = """
\b
Examples:
  svmsieve weights run
  svmsieve weights run --top 50 --c 0.1
  svmsieve weights digits-run --class 7               # of several classes: one against the rest
"""
TOP, TOP_OF_EACH = 20, 5  # weights: of one model a screen, of several classes a few each
CLASSES_SHOWN = 20  # with five weights each, a hundred lines
LONGEST = 56  # characters of a name: with a class of ten and a weight, a line of 80


@click.command("weights", epilog=EXAMPLES)
@click.argument("run")
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", help="How many [default: 20, of each of several classes 5]."
)
@c_option
@click.option("--class", "name", metavar="NAME", help="Of several classes: this one only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def weights_command(run: str, top: int | None, c: float | None, name: str | None, as_json: bool) -> None:
    """Show the largest weights of a linear model of RUN, by the names of the features.

    A positive weight speaks for the positive class, or for the class that it stands at. The weight of the bias column
    stands apart, at the end. A hashed feature has the names that are known to be in its bucket, and says if they
    collide; a minus before one means that it counts with the opposite sign. Features without names are counted as
    svmlight text counted them. Without --c the step with the best score counts.
    """
    from pipeline.runs.classes import ClassesRun
    from pipeline.runs.directory import open_run

    with progress() as listen:
        found = open_run(run)
        if isinstance(found, ClassesRun):
            several = found.weights(top or (TOP if name else TOP_OF_EACH), c, name, listen)
        elif name is not None:
            raise RunError(f"{run}: is a run of two classes; leave --class out")
        else:
            several = {"": found.weights(top or TOP, c, listen)}
    if as_json:
        models = [{"class": k or each.positive, **each.to_json()} for k, each in several.items()]
        click.echo(json.dumps({"run": run, "models": models}, allow_nan=False))
    elif "" in several:
        _show(run, several[""])
    else:
        _show_classes(run, several)


def _show(run: str, found: TopWeights) -> None:
    how = f"{found.nonzero:,} of {counted(found.features, 'weight')} are not 0"
    say(f"{run}: step {found.step} (C = {found.c:.6g}), {how}")
    say(f"+ speaks for {found.positive}, - for {found.negative}")
    table(("weight", "feature"), _cells(found), right=(0,))


def _show_classes(run: str, several: dict[str, TopWeights]) -> None:
    first = next(iter(several.values()))
    say(f"{run}: step {first.step} (C = {first.c:.6g}), + speaks for the class, - for the rest")
    rows = []
    for name, found in list(several.items())[:CLASSES_SHOWN]:
        cells = _cells(found) or [("", "all weights are 0")]
        rows += [("" if k else _short(name, 10), *cell) for k, cell in enumerate(cells)]
    table(("class", "weight", "feature"), rows, right=(1,))
    if len(several) > CLASSES_SHOWN:
        say(f"and {len(several) - CLASSES_SHOWN:,} more classes; name one with --class")


def _cells(found: TopWeights) -> list[tuple[str, str]]:
    """Return weights and names, those that share a bucket marked, and the bias at the end."""
    cells = []
    for each in found.largest:
        mark = " (collide)" if each.colliding else ""
        cells.append((f"{each.weight:+.4g}", _short(each.name, LONGEST - len(mark)) + mark))
    return cells if found.bias is None else [*cells, (f"{found.bias.weight:+.4g}", "(bias)")]


def _short(name: str, longest: int = LONGEST) -> str:
    return name if len(name) <= longest else f"{name[: longest - 3]}..."
