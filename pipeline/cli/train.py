"""``svmsieve train`` and ``svmsieve screen``: one C, from a model that is there already."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.options import (
    A_C,
    Local,
    Size,
    TableFile,
    ids_option,
    quiet_option,
    reading_options,
    scheduler_option,
    workers_option,
)
from pipeline.cli.path import opened, reading_like, show_run, trained, training_options
from pipeline.cli.table import say_facts, say_wrapped
from pipeline.errors import RunError
from pipeline.progress import progress
from pipeline.spec import RULES

if TYPE_CHECKING:
    from pipeline.runs.classes import AnyStep
    from pipeline.runs.run import StepView

TRAIN_EXAMPLES = """
\b
Examples:
  svmsieve train shards --c 0.5 --out run
  svmsieve train today --c 0.5 --reference yesterdays-run --out run
"""
SCREEN_EXAMPLES = """
\b
Examples:
  svmsieve screen shards --reference run --c 0.5 --out verdicts.parquet
  svmsieve screen shards --reference run --c 0.5 --out verdicts.parquet --keep-out survivors.svm
  svmsieve screen rows.parquet --reference run --c 0.5 --id customer --out verdicts.csv
"""


@click.command("train", epilog=TRAIN_EXAMPLES)
@click.argument("data")
@click.option("--c", "c", type=A_C, required=True, metavar="C", help="The C to train at.")
@click.option("--out", type=Local(), required=True, metavar="RUN", help="The run directory.")
@click.option("--reference", metavar="RUN0", help="Start from this run's model: of another C, or of other data.")
@training_options
def train_command(
    data: str, c: float, out: str, reference: str | None, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Train the SVM at one C, to a certificate over all rows.

    A reference gives the start and the ball that screens rows before any training. It may come from data that have
    changed since (rows appended, costs changed): the ball stays valid. The kernel is the reference's unless --kernel
    says otherwise, and must be the same.
    """
    run = trained(data, out, quiet, options, (_nearest(reference, c),) if reference else (), grid=(c,))
    show_run(run, as_json)


@click.command("screen", epilog=SCREEN_EXAMPLES)
@click.argument("data")
@click.option("--reference", required=True, metavar="RUN", help="A run whose model proves the bounds.")
@click.option("--c", "c", type=A_C, required=True, metavar="C", help="The C to screen for.")
@click.option(
    "--out",
    type=TableFile(),
    required=True,
    metavar="FILE",
    help="A .parquet, .csv or .csv.gz file: verdict, lower, upper of every row.",
)
@ids_option
@click.option(
    "--keep-out", type=Local(), metavar="FILE", help="Write the undecided rows and one folded row as svmlight text."
)
@click.option("--rule", type=click.Choice(RULES), default="it", show_default=True)
@click.option("--memory", type=Size(), metavar="SIZE", help="Memory to use [default: half of the machine's].")
@scheduler_option
@workers_option
@reading_options
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def screen_command(
    data: str, reference: str, c: float, out: str, keep_out: str | None, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Prove for each row, before training at C, whether it can matter.

    Verdicts: 0 KEEP (undecided), 1 ZERO (outside the margin at the optimum, alpha = 0), 2 UPPER (inside, alpha at its
    bound); lower and upper bound the row's margin at the optimum. Before them stand the columns that --id names, where
    DATA are CSV or Parquet files (of CSV as text). The kernel is that of the reference.
    """
    from pipeline.data.ids import open_ids
    from pipeline.engine.engine import Engine
    from pipeline.maths.verdicts import KEEP, UPPER, ZERO
    from pipeline.use.screen import screen_to, screening
    from pipeline.use.survivors import survivors_to

    step, rule = _reference(reference, c), options["rule"]
    if keep_out and step.spec.kernel != "linear":
        what = f"{reference}: the folded row of kernel {step.spec.kernel} is no row of features"
        raise RunError(f"{what}; leave --keep-out away, and take the undecided rows from the verdicts")
    aside = [name for name in options["ids"] if not _is_known(name, step, options)]
    options["ignore"] = tuple(dict.fromkeys([*options["ignore"], *aside]))
    with progress(quiet) as listen, Engine(options["scheduler"], options["workers"]) as engine:
        usual = step.data.encoding.ids if step.data.encoding is not None else ()
        ids = open_ids(data, reading_like(options, step.data), options["ids"], usual, listen)
        source = opened(data, options, listen, like=step.data)
        source.expect_two_classes("screening")
        found = screening(engine, source, step, c, rule, options["memory"])
        counts = screen_to(out, found, ids)
        kept = survivors_to(keep_out, engine, source, found) if keep_out else None
    facts = {"c": c, "c_ref": step.c, "rule": rule, "zero": counts[ZERO], "upper": counts[UPPER], "keep": counts[KEEP]}
    if as_json:
        click.echo(json.dumps(facts, allow_nan=False))
        return
    total = sum(counts.values())
    decided = 1 - counts[KEEP] / total
    shares = f"{decided:.1%} of {total:,} rows decided at C = {c:g} by {rule} from C = {step.c:g}"
    say_facts(out, [f"{shares} ({counts[ZERO]:,} ZERO", f"{counts[UPPER]:,} UPPER", f"{counts[KEEP]:,} left)"])
    if kept:
        rows, weight, cost = kept
        how = f"row weights in {keep_out}.weight"
        if cost is not None:
            how = f"for LIBLINEAR: -s 3 -c {c * cost!r}" + (f" -w-1 {weight / cost!r}" if weight else "")
        folded = "one folded row" if weight else "no folded row"
        say_wrapped(f"{keep_out}: {rows:,} rows with label +1, {folded} with label -1; {how}")


def _is_known(name: str, step: StepView, options: dict[str, Any]) -> bool:
    """Whether a column means something to the reference, or to the options; else it is an id and nothing more."""
    encoded = step.data.encoding is not None and name in step.data.encoding.known
    named = name in (step.data.columns or ()) or name in (options[key] for key in ("label_column", "weight_column"))
    return encoded or named


def _nearest(run: str, c: float) -> AnyStep:
    """Return the step of a run to start from: the largest C that is not above, else the smallest there is."""
    from pipeline.runs.directory import open_run

    found = open_run(run)
    return found.at(max([c, *(step.c for step in found.steps[:1])]))


def _reference(run: str, c: float) -> StepView:
    """Return the step of a run of two classes to screen with."""
    from pipeline.runs.run import StepView

    step = _nearest(run, c)
    if isinstance(step, StepView):
        return step
    cure = "ingest the data with --positive LABEL for one class against the rest, and train on that"
    raise RunError(f"{run}: is a run of several classes, and rows are screened for two; {cure}")
