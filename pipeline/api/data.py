"""Data as people have them, as a data set: paths and names are opened, arrays and frames become rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from pipeline.api.keywords import checked_keywords
from pipeline.data import inputs
from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.in_memory import in_memory
from pipeline.data.ingest.ingest import IngestSpec, reading_spec
from pipeline.data.ingest.ingest import ingest as ingest_files
from pipeline.data.reading.labels import LabelCoder, LabelMap, RawLabels
from pipeline.errors import DataError, SpecError, shown
from pipeline.events import Listener, silent
from pipeline.progress import progress
from pipeline.runs.data_record import DataRecord
from pipeline.sizes import bytes_of

ARRAYS_ONLY = "belongs to arrays; data in files have labels and weights in them: leave it out"


@checked_keywords
def open_dataset(  # noqa: PLR0913 - all but two are keywords
    data: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    bias: float | None = None,
    positive: str | None = None,
    columns: str = "auto",
    format: str = "auto",  # noqa: A002
    label_column: str = "label",
    weight_column: str = "weight",
    group: str | None = None,
    features: int | None = None,
    index_base: str = "auto",
    duplicates: str = "error",
    ignore: Sequence[str] = (),
    verbose: int = 0,
) -> Dataset:
    """Open data for training, scoring and checking.

    Parameters
    ----------
    data : path, URL, name, Dataset, array, sparse matrix or frame
        A shard directory, Parquet, svmlight, npz or CSV files, a name of the registry; or rows in memory.
    y : array-like of shape (n_samples,), default=None
        The labels of rows in memory, numbers or text.
    sample_weight : array-like of shape (n_samples,), default=None
        The costs of rows in memory, all above 0.
    bias : float, default=None
        The value of a constant feature that is added; 0 adds none. None is 1 where columns of a table are encoded, else
        none.
    positive : str, default=None
        The label that is +1, all others being -1; None: of two labels the larger, three or more are classes.
    columns : str, default="auto"
        What becomes of the columns of a table in files: "auto" scales numbers and encodes strings and dates, "none"
        takes numbers as they are; or a YAML file, or the data set or run whose features they are to be.
    format, label_column, weight_column, group, features, index_base, duplicates, ignore
        How files are read, as the options of ``svmsieve ingest`` of these names.
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
        bias=bias,
        columns=columns,
        features=features,
        index_base=index_base,
        duplicates=duplicates,
        label_column=label_column,
        weight_column=weight_column,
        group=group,
        ignore=ignore,
    )
    with progress(quiet=not verbose) as listen:
        return as_dataset(data, y, sample_weight, spec, listen)


@checked_keywords
def ingest(  # noqa: PLR0913 - all but two are keywords
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    bias: float | None = None,
    positive: str | None = None,
    columns: str = "auto",
    format: str = "auto",  # noqa: A002
    label_column: str = "label",
    weight_column: str = "weight",
    group: str | None = None,
    features: int | None = None,
    index_base: str = "auto",
    duplicates: str = "error",
    ignore: Sequence[str] = (),
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
    bias, positive, columns, format, label_column, weight_column, group, features, index_base, duplicates, ignore
        As in ``open_dataset``.
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
        bias=bias,
        columns=columns,
        features=features,
        index_base=index_base,
        duplicates=duplicates,
        label_column=label_column,
        weight_column=weight_column,
        group=group,
        ignore=ignore,
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


def as_dataset(
    data: Any, y: Any = None, sample_weight: Any = None, spec: IngestSpec | None = None, listen: Listener = silent
) -> Dataset:
    """Return data of any kind as a data set."""
    if isinstance(data, str | Path | Dataset):
        for what, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise SpecError(f"{what} {ARRAYS_ONLY}")
        return data if isinstance(data, Dataset) else inputs.open_dataset(data, spec, listen)
    spec = spec or reading_spec()
    x, columns = matrix_of(data)
    if y is None:
        raise DataError("rows in memory need labels; give them as y")
    codes, labels = _coded(y, spec.positive, x.shape[0])
    costs = None if sample_weight is None else _of_rows("sample_weight", sample_weight, x.shape[0]).astype(np.float64)
    return in_memory(x, codes, labels, costs, bias=spec.bias, columns=columns, name="X")


def as_trained(about: DataRecord, data: Any, y: Any, sample_weight: Any, listen: Listener = silent) -> Dataset:
    """Return data of any kind as a run's data were: with their bias, and a table's columns encoded as they were."""
    spec = IngestSpec(bias=about.bias)
    if about.encoding is not None:
        spec = replace(spec, reading=spec.reading.encoded(about.encoding))
    if isinstance(data, str | Path) and y is None and sample_weight is None:
        return inputs.open_dataset(data, spec, listen, given=())
    return as_dataset(data, y, sample_weight, spec, listen)


def matrix_of(data: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Return rows in memory as a matrix of numbers, dense or sparse, and the names of the columns of a frame."""
    if sp.issparse(data):
        return data.tocsr(), None
    columns = getattr(data, "columns", None)
    names = None if columns is None else tuple(map(str, columns))
    try:
        x = np.asarray(data, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"rows in memory are a matrix of numbers, not {_said(data)}; encode what is text") from error
    if x.ndim != 2:
        raise DataError(f"rows in memory are a matrix, not of {x.ndim} dimensions; reshape(1, -1) makes one row")
    return x, names


def _said(data: Any) -> str:
    return f"{type(data).__name__} {shown(data)}" if np.isscalar(data) or data is None else type(data).__name__


def _coded(y: Any, positive: str | None, n_rows: int) -> tuple[np.ndarray, LabelMap]:
    """Return the classes of rows by number, and what they are called, as if they had been ingested."""
    raw = RawLabels.of(_of_rows("y", y, n_rows))
    missing = raw.first_missing()
    if missing is not None:
        raise DataError("the label is missing (empty, nan or infinite); fill it or drop the row", path="y", row=missing)
    coder = LabelCoder(positive)
    coder.admit(raw.values, "y")
    labels = coder.finish("y")
    found = coder.encode(raw, "y")
    return (found if labels.classes else (found > 0)).astype(np.int32), labels


def _of_rows(name: str, values: Any, n_rows: int) -> np.ndarray:
    found = np.asarray(values)
    if found.shape != (n_rows,):
        raise DataError(f"{name} has shape {found.shape}, and there are {n_rows:,} rows; give one value a row")
    return found
