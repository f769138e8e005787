"""Command lines with values that are none, of every command that works on data; the data are not there.

So nothing is trained: what a command says must be one line about an option, or about the file that is missing.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from random import Random

import click

from pipeline.cli import app
from pipeline.errors import SieveError
from tests.fuzz.judge import Target, WrongError
from tests.fuzz.mutate import NUMBERS, TEXTS

COMMANDS = ("path", "train", "ingest", "screen", "predict", "verify", "export", "weights", "nightly")
TABLES = ("screen", "predict")  # what they write has a format, by its name
NOT_HERE = ("scheduler", "help")  # an address would be waited for
VALUES = (
    *NUMBERS,
    *(text for text in TEXTS if len(text) < 100),
    *("0.01:10", "0.01:10:0", "0.01:10:-1", "1:2:3:4", "10x:1000x:5", "10x:5", "1:10:1000000000", "1,2,x"),
    *("1,1", "2,1", ","),
    *("1e308:1e-308:5", "nan:1:2", "1::2", "x", "1x,2", "64MB", "1e9GB", "1" * 400 + "GB", "-1MB", "1.5.5"),
    *("0.5k", "balanced"),
    *("1,2", "1,-1", "1e200,1", "1,2,3", "auto", "0", "1", "sum", "csv", "it", "gap", "newton", "2026-11-16"),
    *("2026-99-99",),
)


class Options(Target):
    """svmsieve and its words."""

    name = "options"
    share = 2
    names_file = False

    def attempt(self, chance: Random, folder: Path) -> None:
        """Run a command."""
        command = app.commands[chance.choice(COMMANDS)]
        options = [p for p in command.params if isinstance(p, click.Option) and p.name not in (*NOT_HERE, "out")]
        words = [str(folder / "nosuch.svm") for p in command.params if isinstance(p, click.Argument)]
        if any(p.name == "out" for p in command.params):
            words += ["--out", str(folder / ("out.csv" if command.name in TABLES else "out"))]
        for option in chance.sample(options, min(len(options), chance.choice((1, 1, 2, 3)))):
            words.append(option.opts[-1])
            if not option.is_flag:
                words.append(chance.choice(VALUES))
        try:
            with redirect_stdout(io.StringIO()):
                app.main([str(command.name), *words], "svmsieve", standalone_mode=False)
        except (SieveError, click.UsageError):
            if any(entry.name != "cache" for entry in folder.iterdir()):
                raise WrongError("something was written", str(list(folder.iterdir()))) from None
            raise
        raise WrongError("a command did without its data", " ".join(words))
