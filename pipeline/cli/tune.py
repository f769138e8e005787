"""``svmsieve tune``: the right C, and a certified model at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.grid import Grid
from pipeline.cli.options import Local, Setting
from pipeline.cli.path import model_options, opened, running_options
from pipeline.cli.table import say_facts, table
from pipeline.progress import progress, score
from pipeline.spec import PATIENCE

if TYPE_CHECKING:
    from pipeline.runs.classes import AnyRun

METRICS = {"accuracy": "accuracy", "balanced": "balanced_accuracy", "auc": "auc", "f1": "f1", "log_loss": "log_loss"}
METRICS |= {"weighted": "weighted_accuracy"}
EXAMPLES = """
\b
Examples:
  svmsieve tune breast_cancer --out run
  svmsieve tune clicks.csv --label-column clicked --bias 1 --metric auc --out run
  svmsieve tune clicks --out run --holdout 0.2 --select 1se         # quicker, for much data; a smaller C
  svmsieve tune clicks --out run --kernel rbf --gamma 0.1/d,1/d,10/d
"""


@click.command("tune", epilog=EXAMPLES)
@click.argument("data")
@click.option(
    "--out", type=Local(), required=True, metavar="RUN", help="The run directory; one that was interrupted goes on."
)
@click.option("--cv", type=click.IntRange(min=2), metavar="K", help="Score in K folds [default: 5].")
@click.option("--holdout", type=Setting("holdout"), metavar="SHARE", help="Score on this share of the rows instead.")
@click.option(
    "--metric",
    type=click.Choice(tuple(METRICS)),
    help="What is to be good [default: accuracy; with weights weighted: rows count as they do in training].",
)
@click.option(
    "--select",
    type=click.Choice(("best", "1se")),
    default="best",
    show_default=True,
    help="The C with the best score, or the smallest within one standard error of it.",
)
@click.option(
    "--patience",
    type=click.IntRange(min=1),
    default=PATIENCE,
    show_default=True,
    metavar="K",
    help="Stop when K values of C in a row score no better.",
)
@click.option("--c-max", type=Setting("c_max"), metavar="C", help="No C above this [default: none].")
@click.option("--grid", type=Grid(), metavar="GRID", help="Try these C and no others: 0.1,1 or 10x:1000x:5.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Other folds of the same rows.")
@click.option(
    "--calibration",
    type=click.Choice(("sigmoid", "isotonic", "none")),
    default="sigmoid",
    show_default=True,
    help="What makes probabilities of scores (svmsieve predict --probability).",
)
@model_options
@running_options
def tune_command(data: str, out: str, quiet: bool, as_json: bool, **options: Any) -> None:
    """Find the C that predicts best, and train the SVM at it on all rows, to a certificate.

    C is tried on a log grid from 10 C_min upwards, each value in K folds that are trained together, until scores get
    no better; then around the best one. Folds are chosen by what is in a row: the same tomorrow. Killed at any moment,
    the same command goes on.
    """
    run = tuned(data, out, quiet, options)
    if as_json:
        facts = {"run": str(run.path), **run.header.to_json(), "steps": [step.to_json() for step in run.steps]}
        click.echo(json.dumps(facts, allow_nan=False))
        return
    show_curve(run)


def tuned(data: str, out: str, quiet: bool, options: dict[str, Any]) -> AnyRun:
    """Open the data, tune, and return the run."""
    from pipeline.engine.engine import Engine
    from pipeline.path.gamma import asked_kernel
    from pipeline.path.train import budget_for
    from pipeline.path.tune import tune_run
    from pipeline.path.usual_score import with_score
    from pipeline.spec import PathSpec

    if options["cv"] and options["holdout"] is not None:
        raise click.UsageError("--cv and --holdout are two ways to score; give one of them")
    folds = 0 if options["holdout"] is not None else options["cv"] or 5
    settings = {name: options[name] for name in ("tol", "rule", "solver", "class_weight", "patience", "seed")}
    gammas = options["gamma"].split(",") if options["gamma"] else [None]
    kernels = [asked_kernel(options["kernel"], gamma, ()) for gamma in gammas]
    spec = PathSpec(
        grid=options["grid"][0] if options["grid"] else None,
        grid_in_c_min=bool(options["grid"] and options["grid"][1]),
        memory=options["memory"] or budget_for(out),
        cv=folds,
        holdout=options["holdout"] or 0.0,
        stratified=True,
        **settings,
        **kernels[0].provisional,
    )
    calibration = None if options["calibration"] == "none" else options["calibration"]
    with progress(quiet) as listen, Engine(options["scheduler"], options["workers"], options["solve_on"]) as engine:
        source = opened(data, options, listen)
        asked = METRICS[options["metric"]] if options["metric"] else None
        judged = with_score(spec, asked, engine, source, Path(out))
        specs = [kernel.settled(judged, engine, source) for kernel in kernels]
        return tune_run(engine, source, specs, Path(out), listen, options["select"], calibration, options["c_max"])


def show_curve(run: AnyRun) -> None:
    """Print the scores by C, what is best, and what was trained."""
    header, name = run.header, run.spec.select
    (step,) = run.steps
    rows = []
    for c, mean, error in zip(header.cv_c or (), header.cv_scores or (), header.cv_se or (), strict=True):
        marks = [mark for mark, which in (("best", header.c_best), ("1se", header.c_1se)) if c == which]
        said = f"± {error[name]:.4f}" if error.get(name) is not None else ""
        rows.append((f"{c:.4g}", score(mean.get(name)), said, " and ".join(marks) + (" <" if c == step.c else "")))
    table(("C", name.replace("_", " "), "", ""), rows, right=(0, 1))
    classes = [f"{len(header.data.classes)} classes against the rest"] if header.data.classes else []
    gamma = "" if run.spec.gamma is None else f" and gamma = {run.spec.gamma:.4g}"
    trained = f"trained at C = {step.c:.4g}{gamma} on all {header.data.rows:,} rows"
    say_facts(run.path, [trained, *classes, f"relative gap {max(step.relative_gap, 0.0):.1e}"])
