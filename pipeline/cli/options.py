"""Option types and option groups that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from pipeline.data.reading.formats import FORMATS
from pipeline.errors import OutputError, SpecError
from pipeline.files import local
from pipeline.sizes import bytes_of
from pipeline.spec import PathSpec


class Size(click.ParamType):
    """A number of bytes: 67108864, 64MB, 64MiB, 2GB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a size."""
        try:
            return bytes_of(value if isinstance(value, int) else str(value))
        except SpecError as error:
            self.fail(str(error), param, ctx)


class Finite(click.ParamType):
    """A finite number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number; nan and inf are refused."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not finite", param, ctx)
        return number


class Setting(click.ParamType):
    """A number that this setting of a path can be: what can not is wrong usage, before anything is read."""

    name = "float"

    def __init__(self, setting: str) -> None:
        self.setting = setting

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a number, and have the settings look at it."""
        number: float = click.FLOAT.convert(value, param, ctx)
        try:
            PathSpec.from_json({self.setting: (number,) if self.setting == "grid" else number})
        except SpecError as error:
            self.fail(str(error), param, ctx)
        return number


A_C = Setting("grid")


class TableFile(click.ParamType):
    """A file on this machine whose name says that it is Parquet or CSV."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an address, and a name that says nothing."""
        from pipeline.use.output import check_name

        try:
            check_name(local(value))
        except OutputError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Local(click.ParamType):
    """A path on this machine, for what is written."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an address."""
        try:
            local(value)
        except OutputError as error:
            self.fail(str(error), param, ctx)
        return str(value)


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Threads to use [default: one a core]."
)
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace the data set at --out, all at once at the end."
)


ids_option = click.option(
    "--id",
    "ids",
    multiple=True,
    metavar="NAME",
    help="Copy this column of CSV or Parquet files, or one that shards keep, to the output; may be repeated [default: "
    "the ids of --columns FILE, or of the shards].",
)
scheduler_option = click.option(
    "--scheduler",
    default="threads",
    show_default=True,
    help="threads, processes, inline, or a Dask cluster by its address: tls://host:port, tcp://host:port.",
)
solve_on_option = click.option(
    "--solve-on",
    type=click.Choice(["client", "worker"]),
    default="client",
    show_default=True,
    help="On a cluster: where the solver runs, and the rows it needs are held.",
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how source files are read."""
    options = (
        click.option("--format", "format_", type=click.Choice(FORMATS), default="auto", show_default=True),
        click.option("--positive", metavar="LABEL", help="This label is +1 and every other -1 (one against the rest)."),
        click.option(
            "--columns",
            default="auto",
            show_default=True,
            metavar="auto|none|FILE|DIR",
            help="Of CSV and Parquet: what becomes of their columns. auto: numbers are scaled, strings and dates "
            "encoded; none: numbers as they are; a YAML file says it; or as in the data set or run DIR.",
        ),
        click.option(
            "--bias",
            type=Finite(),
            metavar="B",
            help="Append a constant feature of value B [default: 1 where columns are encoded, else none].",
        ),
        click.option(
            "--features",
            type=click.IntRange(1, 2**31 - 2),
            metavar="D",
            help="Number of features; an index beyond is an error.",
        ),
        click.option(
            "--index-base",
            type=click.Choice(["auto", "0", "1"]),
            default="auto",
            show_default=True,
            help="What indices count from. auto: svmlight from 1 unless a 0 occurs, arrays from 0.",
        ),
        click.option(
            "--duplicates",
            type=click.Choice(["error", "sum"]),
            default="error",
            show_default=True,
            help="What to do with an index that stands twice in a row.",
        ),
        click.option("--label-column", default="label", show_default=True, metavar="NAME", help="For CSV and Parquet."),
        click.option(
            "--weight-column",
            default="weight",
            show_default=True,
            metavar="NAME",
            help="For CSV and Parquet: the rows' costs, if there is such a column.",
        ),
        click.option(
            "--group",
            metavar="NAME",
            help="For CSV and Parquet: rows alike in this column are split together.",
        ),
        click.option("--ignore", multiple=True, metavar="NAME", help="This column is no feature; may be repeated."),
        click.option(
            "--max-line", type=Size(), metavar="SIZE", help="The most bytes a line of text may have [default: 64MiB]."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def given_options() -> list[str]:
    """Return the options that the user gave to the command that runs, by the names of ``reading_options``."""
    context = click.get_current_context()
    given = (name for name in context.params if context.get_parameter_source(name) != ParameterSource.DEFAULT)
    return [name.rstrip("_") for name in given]
