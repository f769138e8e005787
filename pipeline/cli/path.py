"""``svmsieve path``: the main job."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipeline.cli.grid import Grid
from pipeline.cli.ingest import ingest_spec
from pipeline.cli.options import (
    Local,
    Setting,
    Size,
    given_options,
    quiet_option,
    reading_options,
    scheduler_option,
    solve_on_option,
    workers_option,
)
from pipeline.cli.table import say_facts, table
from pipeline.progress import counted, human_bytes, progress, score
from pipeline.spec import GRAM_SOLVERS, KERNELS, RULES, SCORES, SOLVERS

if TYPE_CHECKING:
    from pipeline.data.dataset import Dataset
    from pipeline.runs.classes import AnyRun, AnyStep, ClassesRun
    from pipeline.runs.data_record import DataRecord
    from pipeline.runs.run import Run

Step = TypeVar("Step")
ROWS_SHOWN = 12  # of the table of steps: with its head, half a screen
EXAMPLES = """
\b
Examples:
  svmsieve path breast_cancer --out run
  svmsieve path shards --out run --grid 0.01,0.1,1 --memory 2GB --holdout 0.2
  svmsieve path shards --out run --grid 10x:10000x:20 --tol 1e-3      # 20 values, in multiples of C_min
  svmsieve path breast_cancer --out run --kernel rbf --gamma 1/d      # a path of kernel machines
  svmsieve path shards --out run --scheduler tcp://scheduler:8786 --validation other-shards
"""


class ClassWeight(click.ParamType):
    """``balanced``, NEG,POS or LABEL=WEIGHT,LABEL=WEIGHT."""

    name = "weights"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read class weights."""
        if value == "balanced" or isinstance(value, tuple):
            return value
        words = str(value).split(",")
        try:
            if "=" in str(value):
                pairs = [word.rpartition("=") for word in words]
                return tuple((label, float(weight)) for label, _, weight in pairs)
            negative, positive = (float(word) for word in words)
        except ValueError:
            self.fail(f"{value!r} is neither balanced nor NEG,POS (two numbers) nor LABEL=WEIGHT,...", param, ctx)
        return negative, positive


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what model is trained, and with how much memory."""
    options = (
        click.option(
            "--tol", type=Setting("tol"), default=1e-4, show_default=True, help="Relative duality gap of every model."
        ),
        click.option("--rule", type=click.Choice(RULES), default="it", show_default=True, help="Screening rule."),
        click.option(
            "--kernel", type=click.Choice(KERNELS), help="Linear or RBF [default: linear, or as in the reference]."
        ),
        click.option(
            "--gamma", metavar="G", help="Of rbf: a number, 0.1/d (over the features), or scale [default: scale]."
        ),
        click.option(
            "--solver",
            type=click.Choice(list(dict.fromkeys(SOLVERS + GRAM_SOLVERS))),
            default="auto",
            show_default=True,
            help=f"Of rbf: {', '.join(GRAM_SOLVERS)}; else {', '.join(SOLVERS)}.",
        ),
        click.option(
            "--class-weight",
            type=ClassWeight(),
            metavar="WEIGHTS",
            help="Of the classes: balanced, NEG,POS, or LABEL=WEIGHT,...",
        ),
        click.option("--memory", type=Size(), metavar="SIZE", help="Memory to use [default: half of the machine's]."),
    )
    return added(command, options)


def running_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where it runs, how data are read, and what is printed."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print the steps as JSON.")
    return added(command, (scheduler_option, workers_option, solve_on_option, reading_options, quiet_option, as_json))


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that path and train share."""
    options = (
        model_options,
        click.option(
            "--holdout", type=Setting("holdout"), default=0.0, metavar="SHARE", help="Score on this share of the rows."
        ),
        click.option("--validation", metavar="DATA2", help="Score on these data."),
        running_options,
    )
    return added(command, options)


def added(command: Callable[..., Any], options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Add options, in the order of help."""
    for option in reversed(options):
        command = option(command)
    return command


@click.command("path", epilog=EXAMPLES)
@click.argument("data")
@click.option(
    "--out",
    type=Local(),
    required=True,
    metavar="RUN",
    help="The run directory; an interrupted run there is continued.",
)
@click.option("--c-max", type=Setting("c_max"), default=1e4, show_default=True, help="Where the path ends.")
@click.option(
    "--epsilon",
    type=Setting("epsilon"),
    default=1e-3,
    show_default=True,
    help="Between two steps a model is this good.",
)
@click.option("--grid", type=Grid(), metavar="GRID", help="Train at these C instead: 0.01,0.1,1 or 10x:1000x:5.")
@click.option("--cv", type=click.IntRange(min=2), default=None, metavar="K", help="Cross-validate with K folds.")
@click.option(
    "--select",
    type=click.Choice(SCORES),
    help="What names the best step [default: accuracy; with weights weighted_accuracy].",
)
@click.option(
    "--patience", type=click.IntRange(min=1), metavar="K", help="End when K values of C in a row score no better."
)
@click.option("--every-row", is_flag=True, help="Read every row for every certificate, also where fewer would do.")
@training_options
def path_command(data: str, out: str, grid: Any, cv: int | None, quiet: bool, as_json: bool, **options: Any) -> None:
    """Train the SVM at every C of a path; every model carries a certificate over all rows.

    DATA is a shard directory or its URL, Parquet, an svmlight, npz or CSV file, or a name from `svmsieve datasets
    list`. Of three classes or more each is trained against the rest, at the C of --grid. The kernel is linear, or rbf:
    exp(-gamma |x - x'|^2), plus the square of the bias where there is one. Killed at any moment, the same command goes
    on after the last finished step.
    """
    _refuse_idle(bool(grid), bool(cv or options["holdout"] or options["validation"]))
    run = trained(
        data, out, quiet, options, grid=grid[0] if grid else None, grid_in_c_min=bool(grid and grid[1]), cv=cv or 0
    )
    show_run(run, as_json)


def _refuse_idle(has_grid: bool, scored: bool) -> None:
    """Refuse options that nothing would come of: who gives one expects something of it."""
    given = set(given_options())
    for name in ("c_max", "epsilon") if has_grid else ():
        if name in given:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"--grid says which C are trained at, and {option} is about others; leave one out")
    for name in ("select", "patience") if not scored else ():
        if name in given:
            raise click.UsageError(f"--{name} needs scores; add --cv, --holdout or --validation")


def trained(
    data: str, out: str, quiet: bool, options: dict[str, Any], references: Sequence[AnyStep] = (), **settings: Any
) -> AnyRun:
    """Open the data, run, and return the run."""
    from pipeline.engine.engine import Engine
    from pipeline.path.gamma import asked_kernel
    from pipeline.path.train import budget_for, train_run
    from pipeline.path.usual_score import with_score
    from pipeline.spec import PathSpec

    names = ("c_max", "epsilon", "tol", "rule", "solver", "class_weight", "holdout", "patience", "every_row")
    settings |= {name: options[name] for name in names if options.get(name) is not None}
    kernel = asked_kernel(options["kernel"], options["gamma"], references)
    spec = PathSpec(memory=options["memory"] or budget_for(out), **settings, **kernel.provisional)
    where = options["scheduler"], options["workers"], options["solve_on"]
    with progress(quiet) as listen, Engine(*where) as engine:
        source, judge = both_opened(data, options, listen, references[0].header.data if references else None)
        scored = bool(spec.cv or spec.splits or judge)
        judged = with_score(spec, options.get("select"), engine, source, Path(out), scored)
        settled = kernel.settled(judged, engine, source)
        return train_run(engine, source, settled, Path(out), judge, listen, references)


def both_opened(
    data: str, options: dict[str, Any], listen: Any, like: DataRecord | None = None
) -> tuple[Dataset, Dataset | None]:
    """Open DATA and what --validation names, if anything; a table of a run's data as it was for the run."""
    other = options["validation"]
    source = opened(data, options, listen, other, like)
    return source, opened(other, options, listen, data, source) if other else None


def opened(
    data: str,
    options: dict[str, Any],
    listen: Any,
    beside: str | None = None,
    like: Dataset | DataRecord | None = None,
) -> Dataset:
    """Open DATA as the reading options say; they may be meant for the data ``beside`` it that is read from files.

    Unless an option says so, indices of svmlight text count from what they did in the data ``like`` which these are
    read, and the columns of a table become the same features.
    """
    from pipeline.data.given import FORGOTTEN
    from pipeline.data.inputs import is_shards, open_dataset

    given = set(given_options())
    if beside and not is_shards(beside):
        given -= set(FORGOTTEN)
    return open_dataset(data, reading_like(options, like), listen, given)


def reading_like(options: dict[str, Any], like: Dataset | DataRecord | None) -> Any:
    """Return the IngestSpec for reading alone, as the data ``like`` which these are were read."""
    spec = reading_of(options)
    if like is not None:
        spec = replace(spec, reading=replace(spec.reading, text_base=like.index_base))
    if like is not None and like.encoding is not None and "columns" not in given_options():
        spec = replace(spec, bias=like.bias, reading=spec.reading.encoded(like.encoding))
    return spec


def reading_of(options: dict[str, Any]) -> Any:
    """Return the IngestSpec for reading alone: workers are those of the engine."""
    return ingest_spec({name: value for name, value in options.items() if name != "workers"})


def show_run(run: AnyRun, as_json: bool) -> None:
    """Print the table of a run, or all of it as JSON."""
    from pipeline.runs.run import Run

    if as_json:
        facts = {"run": str(run.path), **run.header.to_json(), "steps": [step.to_json() for step in run.steps]}
        click.echo(json.dumps(facts, allow_nan=False))
    elif isinstance(run, Run):
        _show_path(run)
    else:
        _show_classes(run)


def _show_classes(run: ClassesRun) -> None:
    """Print a line a C: the worst gap of all classes, and the scores of all together."""
    header, found = ("step", "C", "free", "relative gap"), run.scores
    names = list(found[0] or {}) if any(found) else []
    rows = []
    for step in _some(run.steps, run.best_step or 0):
        scores = found[step.step] or {}
        cells = [
            f"{step.step}{'*' if names and step.step == run.best_step else ''}",
            f"{step.c:.4g}",
            f"{step.n_free:,}",
            f"{step.relative_gap:.1e}",
        ]
        rows.append((*cells, *(score(scores.get(name)) for name in names)))
    table((*header, *(name.replace("_", " ") for name in names)), rows, right=range(len(header) + len(names)))
    worst = max(step.relative_gap for step in run.steps)
    models = counted(len(run.classes) * len(run.steps), "certified model")
    at = f"{len(run.classes):,} classes at {counted(len(run.steps), 'value')} of C"
    say_facts(run.path, [models, at, f"relative gap at most {worst:.1e}", *_spent(run)])


def _show_path(run: Run) -> None:
    header = ["step", "C", "screened", "solved", "free", "at bound", "gap", "passes", "seconds"]
    found, best, select = run.scores, run.best_step, run.spec.select
    scored = any(found)
    rows = []
    for step in _some(run.steps, best or 0):
        cells = [
            f"{step.step}{'*' if scored and step.step == best else ''}",
            f"{step.c:.4g}",
            f"{1 - step.survivors / step.n_rows:.1%}",
            f"{step.working_set:,}",
            f"{step.n_free:,}",
            f"{step.n_upper:,}",
            f"{max(step.relative_gap, 0.0):.1e}",
            f"{step.passes:.2f}",
            f"{step.seconds['total']:.2f}",
        ]
        if scored:
            cells.append(score((found[step.step] or {}).get(select)))
        rows.append(tuple(cells))
    titles = (*header, select.replace("_", " ")) if scored else tuple(header)
    table(titles, rows, right=range(len(titles)), spare=("passes", "solved", "seconds"))
    passes = sum(step.passes for step in run.steps) / len(run.steps)
    worst = max(step.relative_gap for step in run.steps)
    models, gap = counted(len(run.steps), "certified model"), f"relative gap at most {worst:.1e}"
    say_facts(run.path, [models, gap, f"{passes:.2f} passes a model", *_spent(run)])
    if run.header.stopped:
        name = run.spec.select.replace("_", " ")
        say_facts(run.path, ["ended here", f"as {name} had not improved for {run.spec.patience} values of C"])


def _spent(run: AnyRun) -> list[str]:
    """Return the time that a run took, and its memory where that is known."""
    memory = run.header.peak_memory
    return [f"{run.header.seconds or 0.0:.1f} s", *([f"peak memory {human_bytes(memory)}"] if memory else [])]


def _some(steps: list[Step], best: int) -> list[Step]:
    """Return at most a screenful of steps, evenly, with the first, the last and the best."""
    if len(steps) <= ROWS_SHOWN:
        return steps
    shown = {round(k * (len(steps) - 1) / (ROWS_SHOWN - 1)) for k in range(ROWS_SHOWN)} | {best}
    return [steps[k] for k in sorted(shown)]
