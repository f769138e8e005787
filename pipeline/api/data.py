"""Data as people have them, as a data set: paths and names are opened, arrays and frames become rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.collections.door import dataset_for
from pipeline.data import inputs
from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.ingest.ingest import IngestSpec, reading_spec
from pipeline.data.ingest.ingest import ingest as ingest_files
from pipeline.data.reading.base import ReadOptions
from pipeline.data.tables.asked import AUTO
from pipeline.engine.engine import Engine, engine_for
from pipeline.events import Listener, silent
from pipeline.keywords import checked_keywords
from pipeline.progress import progress
from pipeline.runs.data_record import DataRecord
from pipeline.sizes import bytes_of


@checked_keywords
def open_dataset(  # noqa: PLR0913 - all but two are keywords
    data: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    columns: str | None = None,
    bias: float | None = None,
    positive: Any = None,
    format: str = "auto",  # noqa: A002
    label_column: str = "label",
    weight_column: str = "weight",
    group: str | None = None,
    features: int | None = None,
    index_base: str = "auto",
    duplicates: str = "error",
    ignore: Sequence[str] = (),
    hasher: Any = None,
    shards: str | Path | None = None,
    scheduler: str = "threads",
    engine: Engine | None = None,
    verbose: int = 0,
) -> Dataset:
    """Open data for training, scoring and checking.

    Parameters
    ----------
    data : path, URL, name, Dataset, array, sparse matrix, frame or Dask collection
        A shard directory, Parquet, svmlight, npz or CSV files, a name of the registry; rows in memory (NumPy, SciPy,
        pandas, polars, pyarrow); or a Dask array, frame or bag, which is written to shards where it is computed.
    y : array-like of shape (n_samples,) or Dask collection, default=None
        The labels, numbers or text, where rows do not have them in a column.
    sample_weight : array-like of shape (n_samples,) or Dask collection, default=None
        The costs of these rows; those of weight 0 are not there.
    columns : str, default=None
        What becomes of the columns of tables and frames: "auto" scales numbers and encodes strings and dates, "none"
        takes numbers as they are; or a YAML file, or the data set or run whose features they are to be. None is "none"
        for frames of numbers only, else "auto".
    bias : float, default=None
        The value of a constant feature that is added; 0 adds none. None is 1 where columns are encoded, else 0.
    positive : label, default=None
        The label that is +1, all others being -1; None: of two labels the larger, three or more are classes.
    format, label_column, weight_column, group, features, index_base, duplicates, ignore
        How files are read, as the options of ``svmsieve ingest`` of these names; frames have columns, too.
    hasher : object with n_features and transform, default=None
        Makes rows of the dicts of a Dask bag: scikit-learn's FeatureHasher.
    shards : path, default=None
        The shard directory that a Dask collection becomes, where all workers see it; None: one that lives as long as
        the data set.
    scheduler, engine
        Where a Dask collection is computed, unless Dask has a client or a scheduler in force.
    verbose : int, default=0
        1 shows progress where files have to be read.

    Returns
    -------
    data : Dataset
        The rows, in shards, with what is known of the whole.
    """
    spec = reading_spec(
        format=format,
        positive=positive,
        columns=AUTO if columns is None else columns,
        bias=bias,
        features=features,
        index_base=index_base,
        duplicates=duplicates,
        label_column=label_column,
        weight_column=weight_column,
        group=group,
        ignore=ignore,
    )
    with progress(quiet=not verbose) as listen, engine_for(engine, scheduler) as made:
        given = {"hasher": hasher, "out": shards, "numbers_too": columns is not None}
        return dataset_for(data, y, sample_weight, spec, **given, engine=made, listen=listen)


@checked_keywords
def ingest(  # noqa: PLR0913 - all but two are keywords
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    columns: str = "auto",
    bias: float | None = None,
    positive: str | None = None,
    format: str = "auto",  # noqa: A002
    label_column: str = "label",
    weight_column: str = "weight",
    group: str | None = None,
    features: int | None = None,
    index_base: str = "auto",
    duplicates: str = "error",
    ignore: Sequence[str] = (),
    ids: Sequence[str] = (),
    rows_per_shard: int | None = None,
    shard_size: int | str = "64MiB",
    append: bool = False,
    overwrite: bool = False,
    workers: int | None = None,
    verbose: int = 0,
) -> Dataset:
    """Turn files into a directory of shards, streaming and in parallel, and open it.

    Parameters
    ----------
    sources : path or list of paths
        The files, in order: svmlight text, CSV, npz or Parquet, patterns, directories, URLs.
    out : path
        The shard directory.
    columns, bias, positive, format, label_column, weight_column, group, features, index_base, duplicates, ignore
        As in ``open_dataset``.
    ids : list of str, default=()
        Columns of tables that are kept as text beside the rows, and are no features: ``predict`` has them.
    rows_per_shard : int, default=None
        Rows of a shard; None cuts by size.
    shard_size : int or str, default="64MiB"
        About how large a shard is.
    append : bool, default=False
        Add the rows to the data set that is there.
    overwrite : bool, default=False
        Replace the data set that is there.
    workers : int, default=None
        Threads; None is all cores.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    data : Dataset
        The data set that ``out`` is now.
    """
    spec = reading_spec(
        format=format,
        positive=positive,
        columns=columns,
        bias=bias,
        features=features,
        index_base=index_base,
        duplicates=duplicates,
        label_column=label_column,
        weight_column=weight_column,
        group=group,
        ignore=ignore,
        ids=ids,
        shard_size=bytes_of(shard_size),
        rows_per_shard=rows_per_shard,
        append=append,
        overwrite=overwrite,
        workers=workers,
    )
    names = [sources] if isinstance(sources, str | Path) else list(sources)
    with progress(quiet=not verbose) as listen:
        ingest_files([str(name) for name in names], out, spec, listen)
    return open_shards(out)


def as_trained(
    about: DataRecord, data: Any, y: Any, sample_weight: Any, engine: Engine, listen: Listener = silent
) -> Dataset:
    """Return data of any kind as a run's data were: with their bias, and a table's columns encoded as they were."""
    reading = ReadOptions() if about.encoding is None else ReadOptions().encoded(about.encoding)
    spec = IngestSpec(reading, bias=about.bias)
    if isinstance(data, str | Path) and y is None and sample_weight is None:
        return inputs.open_dataset(data, spec, listen, given=())
    return dataset_for(data, y, sample_weight, spec, engine=engine, listen=listen)
