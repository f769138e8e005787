"""``svmsieve export``: a model of a run as a file that other programs read."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli.options import Local
from pipeline.cli.predict import c_option, training_option
from pipeline.progress import counted, progress

EXAMPLES = """
\b
Examples:
  svmsieve export run --out svm.model                    # for LIBLINEAR's predict
  svmsieve export run --c 0.1 --out svm.npz --as sklearn # svm = pipeline.load_sklearn("svm.npz")
  svmsieve export run --out weights.npz                  # c, w, bias and labels as arrays
  svmsieve export kernel-run --out svm.model             # for LIBSVM's svm-predict
"""
KINDS = ("liblinear", "libsvm", "sklearn", "npz")
TEXT = {"linear": "liblinear", "rbf": "libsvm"}
SUFFIXES = (".model", ".txt", ".npz")


@click.command("export", epilog=EXAMPLES)
@click.argument("run")
@click.option(
    "--out", type=Local(), required=True, metavar="FILE", help="The file to write; an old one is replaced at once."
)
@c_option
@training_option
@click.option(
    "--as",
    "kind",
    type=click.Choice(KINDS),
    help="What to write [default: liblinear, of a kernel libsvm, for .model and .txt; npz for .npz].",
)
def export_command(run: str, out: str, c: float | None, kind: str | None, training_data: str | None) -> None:
    """Write a model of RUN for other programs: LIBLINEAR or LIBSVM, scikit-learn, or anything that reads npz.

    A bias of the training data becomes LIBLINEAR's -B, LIBSVM's rho and scikit-learn's intercept. Labels of LIBLINEAR
    and LIBSVM are integers: others are written as +1 and -1, and a line says so. Without --c the step with the best
    score counts; where nothing was scored, --c is needed. A kernel's model goes with its support rows, which are read
    from its training data.
    """
    from pipeline.runs.directory import open_run
    from pipeline.scoring.models import any_model_of
    from pipeline.use.export import export

    suffix = Path(out).suffix.lower()
    if kind is None and suffix not in SUFFIXES:
        problem = f"--out {out} does not tell the format; pass --as {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        raise click.UsageError(problem, click.get_current_context())
    with progress() as listen:
        found = open_run(run)
        kind = kind or ("npz" if suffix == ".npz" else TEXT[found.spec.kernel])
        model = any_model_of(found, c, listen, training_data)
        export(model, Path(out), kind, listen)
    bias = f" and a bias of {model.bias:g}" if model.bias else ""
    features = counted(model.known, "feature")
    click.echo(f"{out}: {kind}, step {model.step} (C = {model.c:.6g}), {features}{bias}")
