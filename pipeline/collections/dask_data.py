"""A Dask collection as a data set: what it consists of, where its shards go, and how long they stay."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.collections.bags import partitions_of_bag
from pipeline.collections.dask_arrays import partitions_of_array
from pipeline.collections.dask_frames import partitions_of_frame, schema_of
from pipeline.collections.kinds import DASK_ARRAY, DASK_FRAME
from pipeline.collections.matrices import refuse_column_names
from pipeline.collections.partitioned import Partitioned
from pipeline.collections.surveys import learn_partitions
from pipeline.collections.tables import FrameAsked, TableReader
from pipeline.collections.writing import write_collection
from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.ingest.ingest import IngestSpec
from pipeline.data.reading.base import ReadOptions
from pipeline.data.shards.manifest import MANIFEST
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import DataError, DatasetError, SpecError
from pipeline.events import Listener
from pipeline.files import Temporary, remove_folder


@dataclass(frozen=True)
class DaskData:
    """A collection of a ``kind`` (``kinds``), with labels and weights if they are given apart; see ``FrameAsked``."""

    x: Any
    kind: str
    y: Any = None
    weight: Any = None
    hasher: Any = None
    numbers_too: bool = True

    def partitions(self, options: ReadOptions) -> Partitioned:
        """Return its partitions, or say in one line what they lack."""
        if self.kind == DASK_FRAME:
            self._refuse_hasher()
            asked = FrameAsked(options, self.y is not None, self.weight is not None, self.numbers_too)
            return partitions_of_frame(self.x, self.y, self.weight, asked)
        if self.kind == DASK_ARRAY:
            self._refuse_hasher()
            refuse_column_names(options, "array")
            if self.y is None:
                raise DataError("an array has no labels in it; give them as y", path="the Dask array")
            return partitions_of_array(self.x, self.y, self.weight)
        refuse_column_names(replace(options, label_column=ReadOptions.label_column), "item of a bag")
        return partitions_of_bag(self.x, self.y, self.weight, self.hasher, options.label_column)

    def _refuse_hasher(self) -> None:
        if self.hasher is not None:
            raise SpecError(f"a hasher is for bags, and this is a {self.kind}; leave it out")


def dataset_of_dask(
    data: DaskData, spec: IngestSpec, out: str | Path | None, engine: Engine, listen: Listener
) -> Dataset:
    """Write a collection to shards in ``out``, or in a folder that goes with the data set, and open them."""
    if out is not None and (Path(out) / MANIFEST).exists():
        cure = "train on it by its path, or choose another folder"
        raise DatasetError(f"{out}: a data set is there already; {cure}")
    source = data.partitions(spec.reading)
    if isinstance(source.reader, TableReader) and source.reader.layout.raw is not None:
        assert spec.reading.table is not None
        encoding = learn_partitions(source, schema_of(data.x), spec.reading.table, engine, listen)
        source = replace(source, reader=source.reader.encoded(encoding))
        spec = replace(spec, bias=spec.reading.table.bias)
    if out is not None:
        write_collection(source, Path(out), spec, engine, listen)
        return open_shards(out)
    folder = Path(tempfile.mkdtemp(prefix="svmsieve-"))
    try:
        write_collection(source, folder / "shards", spec, engine, listen)
        return replace(open_shards(folder / "shards"), keeper=Temporary(folder))
    except BaseException:
        remove_folder(folder)
        raise
