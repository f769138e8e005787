"""``svmsieve datasets``: the registry, the stand-ins, and a look at what is in a data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.options import (
    Local,
    Size,
    overwrite_option,
    quiet_option,
    reading_options,
    scheduler_option,
    workers_option,
)
from pipeline.cli.path import opened
from pipeline.cli.table import say, table
from pipeline.errors import DataError
from pipeline.progress import counted, human_bytes, progress
from pipeline.redact import redacted

if TYPE_CHECKING:
    from pipeline.data.dataset import Dataset
    from pipeline.runs.data_record import DataRecord
    from pipeline.use.describe import Description


@click.group(epilog="\b\nExample:\n  svmsieve datasets list")
def datasets() -> None:
    """List, download, make, copy, compact, describe and check data sets."""


@datasets.command("list", epilog="\b\nExample:\n  svmsieve datasets list --json")
@click.option("--json", "as_json", is_flag=True, help="Print the registry as JSON.")
def list_command(as_json: bool) -> None:
    """List the data sets that svmsieve knows by name (datasets.yaml, or the file $SVMSIEVE_DATASETS names)."""
    from pipeline.data.registry.registry import load_registry

    registry = load_registry()
    if as_json:
        click.echo(json.dumps([vars(e) | {"url": redacted(e.url)} for e in registry.values()], indent=1))
        return
    rows = [
        (e.name, e.paper, f"{e.rows:,}" if e.rows else "?", f"{e.features:,}" if e.features else "?", e.kind, e.title)
        for e in registry.values()
    ]
    table(("name", "paper", "rows", "features", "kind", "what it is"), rows, right=(2, 3), prose=True)


@datasets.command("fetch", epilog="\b\nExample:\n  svmsieve datasets fetch mushrooms --out downloads")
@click.argument("name")
@click.option(
    "--out",
    type=Local(),
    metavar="DIR",
    help="Where to put it [default: the cache, where `svmsieve ingest NAME` looks].",
)
@click.option("--force", is_flag=True, help="Download again even if the file is there.")
@quiet_option
def fetch_command(name: str, out: str | None, force: bool, quiet: bool) -> None:
    """Download a data set; an interrupted download goes on where it stopped, and its sha256 is recorded and checked."""
    from pipeline.data.cache import cache_directory
    from pipeline.data.registry.fetch import fetch
    from pipeline.data.registry.registry import find_entry

    with progress(quiet) as listen:
        path = fetch(find_entry(name), Path(out) if out else cache_directory(), listen, force)
    say(str(path))


@datasets.command("make", epilog="\b\nExample:\n  svmsieve datasets make url-like --scale 0.01 --out small-url")
@click.argument("name")
@click.option("--out", required=True, metavar="DIR", help="The shard directory to make.")
@click.option(
    "--scale", type=float, default=1.0, show_default=True, help="Share of the real number of rows and features."
)
@click.option("--rows", type=click.IntRange(min=2), metavar="N", help="So many rows instead of the scaled number.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, other rows.")
@overwrite_option
@workers_option
@quiet_option
def make_command(name: str, out: str, quiet: bool, **options: Any) -> None:
    """Make a synthetic stand-in (url-like, kdda-like, kddb-like) with the shape of the real data set."""
    from pipeline.data.registry.synthetic import make

    with progress(quiet) as listen:
        manifest = make(name, out, listen=listen, **options)
    size = human_bytes(sum(shard.bytes for shard in manifest.shards))
    click.echo(
        f"{out}: {manifest.rows:,} rows, {manifest.features:,} features, {manifest.nnz:,} nonzeros in "
        f"{counted(len(manifest.shards), 'shard')} of {size}"
    )


@datasets.command(
    "copy",
    epilog="\b\nExamples:\n  svmsieve datasets copy clicks s3://bucket/clicks\n"
    "  svmsieve datasets copy clicks s3://bucket/clicks --overwrite --prune",
)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--overwrite", is_flag=True, help="Replace the data set at DST, all at once at the end.")
@click.option("--prune", is_flag=True, help="Then remove shards of older data sets behind the URL DST.")
@quiet_option
def copy_command(source: str, target: str, overwrite: bool, prune: bool, quiet: bool) -> None:
    """Copy a data set between a shard directory and a URL, such as s3://bucket/clicks.

    The manifest comes last: a copy that was stopped never looks like a data set, and to a URL the same command goes on
    where it was. Whoever reads the data set that was there before can go on, until --prune.
    """
    from pipeline.data.stores.transfer import copy_shards

    with progress(quiet) as listen:
        copied = copy_shards(source, target, overwrite, prune, listen)
    shards = copied.manifest.shards
    said = f"{counted(len(shards), 'shard')} of {human_bytes(sum(shard.bytes for shard in shards))}"
    where = redacted(target)
    say(f"{where}: {copied.manifest.rows:,} rows in {said}, {copied.sent:,} of them sent now")
    if copied.strays:
        strays = counted(len(copied.strays), "other shard")
        say(f"{where}: {strays} there for readers of older data sets; --prune removes them")


@datasets.command("compact", epilog="\b\nExample:\n  svmsieve datasets compact clicks")
@click.argument("directory", metavar="DIR")
@click.option(
    "--shard-size", type=Size(), default="64MiB", show_default=True, metavar="SIZE", help="How large shards become."
)
@quiet_option
def compact_command(directory: str, shard_size: int, quiet: bool) -> None:
    """Merge small neighbouring shards, which many appends leave, into ones of normal size.

    Rows, their order and the fingerprint stay, so runs on the data set stay valid. It happens all at once at the end;
    a command that is reading the data set meanwhile may have to be run again.
    """
    from pipeline.data.shards.compact import compact

    with progress(quiet) as listen:
        done = compact(directory, shard_bytes=shard_size, listen=listen)
    shards, merged = done.manifest.shards, sum(map(len, done.merged.values()))
    if not merged:
        say(f"{directory}: nothing to merge in {counted(len(shards), 'shard')}")
        return
    what = f"{counted(merged, 'shard')} merged into {len(done.merged):,}"
    say(f"{directory}: {what}, {counted(len(shards), 'shard')} of {done.manifest.rows:,} rows in all")


@datasets.command("check", epilog="\b\nExample:\n  svmsieve datasets check clicks")
@click.argument("directory", metavar="DIR|URL")
def check_command(directory: str) -> None:
    """Read every shard and compare its checksum with the manifest's."""
    from pipeline.data.dataset import open_shards

    data = open_shards(directory, full_check=True)
    read = f"{counted(len(data.shards), 'shard')} read, {human_bytes(data.bytes)}"
    say(f"{redacted(directory)}: {read}: every checksum holds")


@datasets.command("describe", epilog="\b\nExample:\n  svmsieve datasets describe clicks")
@click.argument("data", metavar="DATA")
@reading_options
@scheduler_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@quiet_option
def describe_command(data: str, scheduler: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Show rows, features, nonzeros, label balance, and the quantiles of row lengths and norms.

    DATA is a shard directory or its URL, a Parquet file or directory, a file of any other format (which is ingested
    into the cache), or a name from the registry.
    """
    from pipeline.engine.engine import Engine
    from pipeline.use.describe import QUANTILES, describe

    with progress(quiet) as listen:
        dataset = opened(data, options, listen)
    with Engine(scheduler) as engine:
        d = describe(engine, dataset)
    if as_json:
        click.echo(json.dumps(d.to_json(), indent=1, allow_nan=False))
        return
    facts = [
        ("rows", f"{d.rows:,}"),
        ("features", f"{d.features:,}" + (f" (the last is the bias, {d.bias:g})" if d.bias else "")),
        ("nonzeros", f"{d.nnz:,} ({d.nnz / d.rows:.1f} a row, density {d.density:.3g})"),
        *_labels(d),
        ("costs", f"{d.cost_range[0]:g} to {d.cost_range[1]:g}, {d.cost_total:,.6g} in all"),
        ("stored", f"{counted(d.shards, 'row group' if d.kind == 'parquet' else 'shard')}, {human_bytes(d.bytes)}"),
        ("fingerprint", d.fingerprint[:16]),
    ]
    say(redacted(data))
    for name, value in facts:
        click.echo(f"  {name:<12} {value}")
    click.echo()
    header = ("quantile", *("min" if q == 0 else "max" if q == 1 else f"{q:.0%}" for q in QUANTILES))
    lengths = ("row length", *(f"{v:,.0f}" for v in d.row_lengths))
    norms = ("norm", *(f"{v:.4g}" for v in d.norms))
    table(header, [lengths, norms], right=range(1, 8))


@datasets.command("columns", epilog="\b\nExample:\n  svmsieve datasets columns flights.parquet --label-column delayed")
@click.argument("data", metavar="DATA|RUN")
@reading_options
@quiet_option
def columns_command(data: str, quiet: bool, **options: Any) -> None:
    """Print, as a file for --columns, what becomes of the columns of a table.

    DATA is a table (which is ingested into the cache), or a data set or a run that was made of one.
    """
    from pipeline.data.tables.report import as_yaml
    from pipeline.runs.directory import HEADER, open_run

    made: Dataset | DataRecord
    if (Path(data) / HEADER).is_file():
        made = open_run(data).header.data
    else:
        with progress(quiet) as listen:
            made = opened(data, options, listen)
    if made.encoding is None:
        raise DataError("its features were not made of the columns of a table; there is nothing to print", path=data)
    click.echo(as_yaml(made.encoding, made.bias), nl=False)


def _labels(d: Description) -> list[tuple[str, str]]:
    if d.classes:
        counts = tuple(f"{name} ({rows:,})" for name, rows in d.classes.items())
        return [("classes", f"{len(counts):,}: {_shown(counts)}")]
    return [
        ("label +1", f"{d.positives:,} ({d.positives / d.rows:.1%}): {_shown(d.positive_labels)}"),
        ("label -1", f"{d.negatives:,} ({d.negatives / d.rows:.1%}): {_shown(d.negative_labels)}"),
    ]


def _shown(labels: tuple[str, ...]) -> str:
    return ", ".join(labels[:6]) + (f" and {len(labels) - 6} more" if len(labels) > 6 else "")
