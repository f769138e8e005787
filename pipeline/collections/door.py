"""The door for whatever a user calls data: a path, arrays and frames in memory, Dask collections.

Arrays and frames become a data set in memory. A Dask collection is never brought into memory: every partition becomes
shards where it is computed (``writing``), in a folder that all workers see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.collections.kinds import DASK_FRAME, DATASET, FRAMES, PATH, is_dask, kind_of
from pipeline.data.dataset import Dataset
from pipeline.data.ingest.assemble import DEFAULT_SHARD_BYTES
from pipeline.data.ingest.ingest import IngestSpec, reading_spec
from pipeline.data.ingest.settle import check_bias
from pipeline.data.inputs import open_dataset
from pipeline.data.reading.base import ReadOptions
from pipeline.data.tables.asked import AUTO
from pipeline.engine.engine import Engine, engine_for
from pipeline.errors import DataError, SpecError
from pipeline.events import Listener, silent

if TYPE_CHECKING:
    from pipeline.data.tables.encoding import Encoding
    from pipeline.data.tables.plan import TablePlan


def dataset_of(  # noqa: PLR0913 - all but two are keywords
    data: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    label: str | None = None,
    weight: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    positive: Any = None,
    columns: str | TablePlan | Encoding | None = None,
    bias: float | None = None,
    hasher: Any = None,
    rows_per_shard: int | None = None,
    shard_size: int = DEFAULT_SHARD_BYTES,
    out: str | Path | None = None,
    engine: Engine | None = None,
    scheduler: str = "threads",
    listen: Listener = silent,
) -> Dataset:
    """Return data of any kind as a data set to train on.

    Parameters
    ----------
    data : path, Dataset, array, frame or Dask collection
        NumPy, SciPy sparse, pandas, polars, pyarrow; a Dask array (dense or of CSR blocks), frame, or bag of dicts;
        what ``open_dataset`` opens; a data set stays as it is.
    y : array, series or Dask collection, optional
        The labels, one a row: numbers, text, booleans or categories, of two classes or several.
    sample_weight : array, series or Dask collection, optional
        The costs of the rows.
    label, weight, group : str, optional
        The columns of a frame that hold the labels (if there is no y; by default "label"), the costs ("weight", if
        there is such a column) and the groups. Of a bag of dicts, ``label`` is the key of the labels.
    ignore : sequence of str
        Columns of a frame that are no features.
    positive : label, optional
        The class that is +1; all others are -1.
    columns : str, TablePlan or Encoding, optional
        What becomes of the columns of frames, and of tables in files: "auto" (what is in them says it), "none" (they
        are numbers, and features as they are), a file that says it, or a data set or run to do as. By default "none"
        for frames of numbers only, else "auto".
    bias : float, optional
        The value of a constant feature; 0 means none. By default 1 where columns are encoded, else none.
    hasher : object with n_features and transform, optional
        Turns the dicts of a bag into rows: scikit-learn's FeatureHasher.
    rows_per_shard, shard_size : int
        The most rows, or about how many bytes, a shard gets.
    out : path, optional
        The shard directory that a Dask collection is written to: on a cluster, on a file system that all workers share.
        By default a temporary one that lives as long as the data set.
    engine, scheduler : Engine or str
        Where a Dask collection is computed if Dask has neither a client nor a scheduler in force.
    listen : callable
        Is told of progress.

    Returns
    -------
    Dataset
        The rows of a Dask collection in shards, those of arrays and frames in memory.
    """
    kind = kind_of(data)
    if kind == DATASET:
        reading: dict[str, Any] = {"label": label, "weight": weight, "group": group, "ignore": tuple(ignore) or None}
        reading |= {"positive": positive, "columns": columns, "bias": bias}
        _refuse(reading, "applies when data are read, and these have been")
    if kind not in (PATH, DATASET, DASK_FRAME, *FRAMES):
        _refuse({"columns": columns}, f"says what becomes of tables, and the data are a {kind}")
    for one, other in ((("y", y), ("label", label)), (("sample_weight", sample_weight), ("weight", weight))):
        if one[1] is not None and other[1] is not None:
            raise SpecError(f"{one[0]} and {other[0]} both say the same of every row; give one of them")
    spec = reading_spec(
        positive=positive,
        bias=bias,
        columns=AUTO if columns is None else columns,
        label_column=ReadOptions.label_column if label is None else label,
        weight_column=ReadOptions.weight_column if weight is None else weight,
        group=group,
        shard_size=shard_size,
        ignore=ignore,
        rows_per_shard=rows_per_shard,
    )
    with engine_for(engine, scheduler, None) as made:
        given = {"hasher": hasher, "out": out, "numbers_too": columns is not None}
        return dataset_for(data, y, sample_weight, spec, **given, engine=made, listen=listen)


def dataset_for(
    data: Any,
    y: Any,
    sample_weight: Any,
    spec: IngestSpec,
    *,
    hasher: Any = None,
    out: str | Path | None = None,
    numbers_too: bool = True,
    engine: Engine,
    listen: Listener = silent,
) -> Dataset:
    """Return data of any kind as a data set, read as ``spec`` says; all else is as in ``dataset_of``.

    ``numbers_too`` is off where nobody asked for columns to be encoded: those of a frame that are all numbers are not.
    """
    check_bias(spec.bias)
    kind = kind_of(data)
    if kind in (PATH, DATASET):
        given = {"y": y, "sample_weight": sample_weight, "hasher": hasher, "out": out}
        _refuse(given, "belongs to arrays and frames; data in files have labels and weights in them")
        return data if kind == DATASET else open_dataset(data, spec, listen)
    if is_dask(data):
        from pipeline.collections.dask_data import DaskData, dataset_of_dask  # noqa: PLC0415 - slow to import

        return dataset_of_dask(DaskData(data, kind, y, sample_weight, hasher, numbers_too), spec, out, engine, listen)
    _refuse({"hasher": hasher, "out": out}, "applies to Dask collections; arrays and frames are taken as they are")
    for values, what in ((y, "y"), (sample_weight, "sample_weight")):
        if is_dask(values):
            raise DataError(f"is a Dask collection, but the rows are in memory; pass {what}.compute()", path=what)
    from pipeline.collections.memory import dataset_of_array, dataset_of_frame  # noqa: PLC0415 - as above

    if kind in FRAMES:
        return dataset_of_frame(data, y, sample_weight, spec, numbers_too, listen)
    return dataset_of_array(data, y, sample_weight, spec)


def _refuse(given: Mapping[str, Any], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise SpecError(f"{name} {why}; leave it out")
