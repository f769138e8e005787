"""The command line: ``svmsieve``. The only place that prints and that turns errors into lines for people."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from pipeline.cli.cluster import cluster
from pipeline.cli.datasets import datasets
from pipeline.cli.export import export_command
from pipeline.cli.ingest import ingest_command
from pipeline.cli.nightly import nightly_command
from pipeline.cli.path import path_command
from pipeline.cli.predict import predict_command
from pipeline.cli.store import store
from pipeline.cli.train import screen_command, train_command
from pipeline.cli.verify import verify_command
from pipeline.errors import SieveError

EXAMPLES = """
\b
Examples:
  svmsieve path breast_cancer --out run               # the whole regularisation path, certified
  svmsieve verify run breast_cancer                   # every certificate, computed again
  svmsieve ingest clicks-*.svm.gz --out clicks        # any format to shards, streaming
  svmsieve datasets describe clicks                   # what is in them
  svmsieve datasets make url-like --scale 0.01 --out small-url
"""


@click.group(epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="svmsieve", prog_name="svmsieve")
def app() -> None:
    """Certified SVM regularisation paths on data larger than memory.

    Data of any common format become memory-mapped sparse shards (ingest); passes over them run on this machine or on a
    Dask cluster. Exit codes: 0 done, 1 the job failed, 2 wrong usage.
    """


app.add_command(ingest_command)
app.add_command(path_command)
app.add_command(train_command)
app.add_command(screen_command)
app.add_command(verify_command)
app.add_command(predict_command)
app.add_command(export_command)
app.add_command(nightly_command)
app.add_command(store)
app.add_command(datasets)
app.add_command(cluster)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; every expected failure is one line on stderr."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        words = sys.argv[1:] if arguments is None else arguments
        with app.make_context("svmsieve", list(words)) as context:
            app.invoke(context)
        sys.exit(0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "svmsieve"
        fail(f"{error.format_message().rstrip('.')}; see {command} --help", command, code=2)
    except click.ClickException as error:
        fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        fail("interrupted; finished results stay, run the same command again to go on")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except SieveError as error:
        if os.environ.get("SVMSIEVE_DEBUG"):
            raise
        fail(" ".join(str(error).split()))
    except MemoryError:
        fail("out of memory; use fewer --workers or smaller shards")


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Treat the end that a supervisor asks for as Ctrl-C: what is half-written is removed."""
    raise KeyboardInterrupt


def fail(message: str, command: str = "svmsieve", code: int = 1) -> NoReturn:
    """Print one line and exit."""
    print(f"{command}: {message}", file=sys.stderr)
    sys.exit(code)
