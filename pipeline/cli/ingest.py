"""``svmsieve ingest``."""

from __future__ import annotations

from typing import Any

import click

from pipeline.cli.options import Size, given_options, overwrite_option, quiet_option, reading_options, workers_option
from pipeline.cli.table import say_facts
from pipeline.progress import counted, human_bytes, progress

EXAMPLES = """
\b
Examples:
  svmsieve ingest train.svm.bz2 --out shards
  svmsieve ingest day1.csv day2.csv --label-column clicked --out shards
  svmsieve ingest table.parquet --label-column clicked --columns columns.yaml --out shards
  svmsieve ingest s3://bucket/table/ --format parquet --out shards
  svmsieve ingest today.svm --append --out shards
  svmsieve ingest table.csv --id customer --out shards              # predict and screen say which row is whose
"""


@click.command("ingest", epilog=EXAMPLES)
@click.argument("sources", nargs=-1, required=True, metavar="SRC...")
@click.option("--out", required=True, metavar="DIR", help="The shard directory to make.")
@reading_options
@click.option(
    "--id",
    "ids",
    multiple=True,
    metavar="NAME",
    help="Keep this column of CSV or Parquet as text, for predict and screen; no feature; may be repeated.",
)
@click.option("--rows-per-shard", type=click.IntRange(min=1), metavar="N", help="Cut shards by rows instead of bytes.")
@click.option(
    "--shard-size", type=Size(), default="64MiB", show_default=True, metavar="SIZE", help="Cut shards by bytes."
)
@click.option(
    "--append", is_flag=True, help="Add the files to the data set at --out; its rows stay, small shards are merged."
)
@overwrite_option
@workers_option
@quiet_option
def ingest_command(sources: tuple[str, ...], out: str, quiet: bool, **options: Any) -> None:
    """Turn source files into a directory of memory-mapped sparse shards.

    SRC is a file, a pattern, a directory of Parquet files, any fsspec URL, or a name from `svmsieve datasets list`.
    Formats: svmlight/LIBSVM text (also .gz, .bz2, .xz), npz (CSR arrays and y), Parquet with list columns indices and
    values, and tables: Parquet, and CSV with a header (comma, semicolon, tab or bar), of numbers, strings and dates,
    which --columns makes features of. The files are streamed, in parallel; memory does not grow with them.
    """
    from pipeline.data.ingest.ingest import ingest
    from pipeline.data.inputs import resolve

    if options["append"] and options["overwrite"]:
        raise click.UsageError("--append and --overwrite exclude each other", click.get_current_context())
    spec = ingest_spec(options, options["ids"])
    with progress(quiet) as listen:
        inputs = []
        for source in sources:
            found, spec = resolve(source, spec, listen)
            inputs.append(found)
        manifest = ingest(inputs, out, spec, listen, given=given_options())
    shards = counted(len(manifest.shards), "shard")
    size = human_bytes(sum(shard.bytes for shard in manifest.shards))
    classes = len(manifest.labels.classes)
    labels = f"{classes:,} classes" if classes else f"{manifest.positives / manifest.rows:.1%} positive"
    counts = [f"{manifest.rows:,} rows", f"{manifest.features:,} features", f"{manifest.nnz:,} nonzeros"]
    say_facts(out, [*counts, labels, f"in {shards} of {size}"])


def ingest_spec(options: dict[str, Any], ids: tuple[str, ...] = ()) -> Any:
    """Return the IngestSpec for the options of ``reading_options`` and, where given, of ``ingest``."""
    from pipeline.data.ingest.ingest import reading_spec

    names = ("positive", "bias", "columns", "features", "index_base", "duplicates", "label_column", "weight_column")
    more = ("ignore", "group", "rows_per_shard", "shard_size", "append", "overwrite", "workers", "max_line")
    given = {name: options[name] for name in (*names, *more) if name in options}
    return reading_spec(format=options["format_"], ids=ids, **given)
