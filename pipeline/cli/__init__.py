"""The command line: ``svmsieve``. The only place that prints and that turns errors into lines for people."""

from __future__ import annotations

import gc
import os
import re
import sys
import traceback
import warnings
from typing import Any, NoReturn

import click

from pipeline.cli.ending import Ending
from pipeline.cli.lazy import Sections
from pipeline.errors import SieveError, SieveWarning, one_line
from pipeline.redact import redacted
from pipeline.stopped import SAID

told = Ending()

EXAMPLES = """
\b
Examples:
  svmsieve tune breast_cancer --out run               # the C that predicts best, and a certified model at it
  svmsieve path breast_cancer --out run               # the whole regularisation path, certified
  svmsieve verify run breast_cancer                   # every certificate, computed again
  svmsieve report run --out report.html               # what it is worth, on one page
  svmsieve ingest clicks-*.svm.gz --out clicks        # any format to shards, streaming
  svmsieve datasets describe clicks                   # what is in them
  svmsieve datasets make url-like --scale 0.01 --out small-url
"""


SECTIONS = {
    "Train": {
        "tune": "pipeline.cli.tune:tune_command",
        "path": "pipeline.cli.path:path_command",
        "train": "pipeline.cli.train:train_command",
    },
    "Use and check": {
        "predict": "pipeline.cli.predict:predict_command",
        "report": "pipeline.cli.report:report_command",
        "weights": "pipeline.cli.weights:weights_command",
        "export": "pipeline.cli.export:export_command",
        "screen": "pipeline.cli.train:screen_command",
        "verify": "pipeline.cli.verify:verify_command",
    },
    "Data": {
        "ingest": "pipeline.cli.ingest:ingest_command",
        "datasets": "pipeline.cli.datasets:datasets",
    },
    "Operate": {
        "nightly": "pipeline.cli.nightly:nightly_command",
        "store": "pipeline.cli.store:store",
        "cluster": "pipeline.cli.cluster:cluster",
    },
}


@click.group(
    cls=Sections,
    sections=SECTIONS,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="svmsieve", prog_name="svmsieve")
def app() -> None:
    """Certified SVM regularisation paths on data larger than memory.

    Data of any common format become memory-mapped sparse shards (ingest); passes over them run on this machine or on a
    Dask cluster. Exit codes: 0 done, 1 the job failed, 2 wrong usage, 143 ended by SIGTERM.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line; every expected failure is one line on stderr."""
    whole = arguments is None  # process: whoever gives arguments may go on
    try:
        told.begin()
        gc.set_threshold(200_000, 20, 20)  # what is imported stays: each search for garbage in it takes 20 ms
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # runs allow BLAS one thread: others spin
        code = _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # before or after the command itself
        code = _stopped()
    told.leave(code, whole)


def _run(words: list[str]) -> int:
    """Run a command and return its exit code."""
    try:
        with warnings.catch_warnings(), app.make_context("svmsieve", list(words)) as context:
            _show_warnings()
            app.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "svmsieve"
        problem = re.sub(r"(?<!\.)\.$", "", error.format_message())  # but for an ellipsis
        return fail(f"{problem}; see {command} --help", command, code=2)
    except click.ClickException as error:
        return fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return _stopped()
    except BrokenPipeError:
        return _without_output(1)
    except SieveError as error:
        if told.number:  # worker processes get the signal, too, and are missed
            return _stopped()
        if os.environ.get("SVMSIEVE_DEBUG"):
            print(redacted(traceback.format_exc()), file=sys.stderr, end="")
            return 1
        return fail(str(error))
    except MemoryError:
        return fail("out of memory; use fewer --workers or smaller shards")
    except OSError as error:
        if error.filename is not None:  # of a file, which whoever opened it should have spoken of
            raise
        if isinstance(error, FileNotFoundError):  # no stream says so: Path.cwd does
            code = fail("the folder that this was started in is gone; go to another")
        else:
            code = _without_output(fail(f"what it says cannot be written ({error.strerror}); send it elsewhere"))
        return code


def _without_output(code: int) -> int:
    """Let what cannot be written any more go nowhere when Python ends; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _stopped() -> int:
    told.cleaned_up()
    return fail(SAID, code=told.code)


def _show_warnings() -> None:
    """Show a warning of ours as one line."""
    shown_before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, SieveWarning):
            print(f"svmsieve: warning: {redacted(str(message))}", file=sys.stderr, flush=True)
        else:
            shown_before(message, category, *where, **more)

    warnings.simplefilter("always", SieveWarning)
    warnings.showwarning = show


def fail(message: str, command: str = "svmsieve", code: int = 1) -> int:
    """Print one line and return the exit code."""
    print(f"{command}: {redacted(one_line(message))}", file=sys.stderr)
    return code
