"""``svmsieve predict``: scores and labels of any data from a model of a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from pipeline.cli.ingest import ingest_spec
from pipeline.cli.options import (
    A_C,
    TableFile,
    given_options,
    ids_option,
    quiet_option,
    reading_options,
    scheduler_option,
    workers_option,
)
from pipeline.cli.path import opened
from pipeline.cli.table import say_wrapped
from pipeline.errors import SpecError
from pipeline.progress import counted, progress, score

EXAMPLES = """
\b
Examples:
  svmsieve predict run test.svm --out predictions.parquet
  svmsieve predict run test-shards --out predictions.parquet --c 0.1 --json
  svmsieve predict run test.csv --bias 1 --label-column clicked --out predictions.parquet
  svmsieve predict run new-rows.csv --out predictions.csv                 # rows without a label
  svmsieve predict run new-rows.parquet --id customer --out predictions.parquet
  svmsieve predict tuned new-rows.csv --out predictions.parquet --probability
  svmsieve predict kernel-run test.svm --out predictions.parquet --training-data moved-shards
"""
SHOWN = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "auc": "AUC", "f1": "F1"}

c_option = click.option(
    "--c", type=A_C, metavar="C", help="The model at this C, or at the step before it [default: the best score's]."
)
training_option = click.option(
    "--training-data",
    metavar="DATA0",
    help="Of a kernel's run: the data it was trained on, if they are no longer where they were.",
)


@click.command("predict", epilog=EXAMPLES)
@click.argument("run")
@click.argument("data")
@click.option(
    "--out",
    type=TableFile(),
    required=True,
    metavar="FILE",
    help="The .parquet, .csv or .csv.gz file to write; an old one is replaced at once.",
)
@ids_option
@c_option
@training_option
@click.option("--probability", is_flag=True, help="Write the probability of the positive class, or of each, too.")
@scheduler_option
@workers_option
@reading_options
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def predict_command(
    run: str, data: str, out: str, c: float | None, scheduler: str, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Predict every row of DATA with a model of RUN, in row order, streaming.

    The file, Parquet or CSV by its name, has the columns score (x . w, or a kernel's sum over its support rows), label
    and truth, both as the labels of the training data: numbers where all of these are numbers, else text; a class that
    stands for several is -1 or +1, and truth is null where a row has no label that RUN knows; before them the columns
    that --id names, as they are in DATA (of CSV as text); with --probability also probability, of the positive class,
    if RUN was calibrated. By a run of several classes it has a column score_CLASS for each, and the largest says the
    label (of equal ones the first), and with --probability columns probability_CLASS. Columns are matched by name: one
    that is missing is an error, others are ignored, and a line says so. Rows without column names (svmlight, npz) may
    have fewer features than the model (they are 0) or more (no training row had them, and a line says so); the bias
    must be the one of the training data. Files are read here; a shard directory where --scheduler says. Without --c the
    step with the best score counts; where nothing was scored, --c is needed. A kernel's model is made of rows of its
    training data, which must still be there. A line says how many rows of DATA have the features of rows that RUN was
    trained on: about how many if it had more than 65,536 different ones.
    """
    from pipeline.engine.engine import Engine
    from pipeline.runs.directory import open_run
    from pipeline.scoring.classes_model import ClassesModel
    from pipeline.scoring.models import any_model_of
    from pipeline.scoring.seen import rows_seen, watch_for
    from pipeline.use.predict import rows_for, write_predictions
    from pipeline.use.predict_classes import write_class_predictions

    target, given = (Path(os.path.realpath(name)) for name in (out, data))
    if given == target or (given.is_dir() and given in target.parents):
        raise click.UsageError(f"--out {out} is in DATA itself; choose another", click.get_current_context())
    if "columns" in given_options():
        raise SpecError("--columns is settled by the run; leave it out")
    opened_run = open_run(run)
    with progress(quiet) as listen, Engine(scheduler, options["workers"]) as engine:
        moved = options["training_data"]
        training = opened(moved, options, listen, data, opened_run.header.data) if moved else None
        model = any_model_of(opened_run, c, listen, training)
        calibration = opened_run.calibration_of(model.c) if options["probability"] else None
        source = rows_for(model, data, ingest_spec(options), listen, given_options(), options["ids"] or None)
        watch = watch_for(opened_run, listen)
        if isinstance(model, ClassesModel):
            found = write_class_predictions(engine, model, source, Path(out), listen, calibration, watch)
        else:
            found = write_predictions(engine, model, source, Path(out), listen, calibration, watch)
    seen = rows_seen(opened_run.header.data, source, watch)
    if as_json:
        facts = {"out": out, "run": run, "step": model.step, "c": model.c, "rows": found.rows}
        facts |= {"labelled": found.labelled, "rows_seen_in_training": seen.count, "rows_seen_exactly": seen.exact}
        facts |= {"scores": found.scores or None, "auc_error": found.auc_error}
        click.echo(json.dumps(facts, allow_nan=False))
        return
    within = {"auc": f" (within {found.auc_error:.1g})" if found.auc_error else ""}
    each = (f"{SHOWN[key]} {score(found.scores[key])}{within.get(key, '')}" for key in SHOWN if key in found.scores)
    shown = ", ".join(each)
    if not shown:
        shown = "no row has a label that the run knows"
    elif found.labelled < found.rows:
        shown += f" (on the {found.labelled:,} rows with a label that the run knows)"
    say_wrapped(f"{out}: {counted(found.rows, 'row')} by step {model.step} (C = {model.c:.6g}): {shown}")
    if said := seen.said(opened_run.spec):
        say_wrapped(f"{out}: {said}")
