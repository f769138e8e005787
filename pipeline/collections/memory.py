"""Arrays and frames that are in memory anyway, as a data set there: no file, and the digests of the rows in shards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.collections.frame_table import FrameTable, tell
from pipeline.collections.frames import arrow_table
from pipeline.collections.matrices import MatrixReader, checked, refuse_column_names
from pipeline.collections.part import Part, Reader
from pipeline.collections.tables import FrameAsked, reader_of
from pipeline.cores import available_cores
from pipeline.data.dataset import Dataset
from pipeline.data.in_memory import ARRAYS, MemoryShard, memory_shard
from pipeline.data.ingest.assemble import Piece, ShardCutter, join
from pipeline.data.ingest.ingest import IngestSpec
from pipeline.data.reading.labels import LabelCoder
from pipeline.data.shards.digest import fingerprint, lanes_of
from pipeline.data.tables.learn import learn
from pipeline.errors import DataError, NoRowsError
from pipeline.events import Listener

ARRAY = FRAME = "X"  # in errors


def dataset_of_array(x: Any, y: Any, sample_weight: Any, spec: IngestSpec) -> Dataset:
    """Return the rows of a matrix, dense or sparse."""
    refuse_column_names(spec.reading, "array")
    if y is None:
        raise DataError("an array has no labels in it; give them as y", path=ARRAY)
    matrix = checked(x, ARRAY)
    return dataset_in_memory(Part(matrix, ARRAY, y, sample_weight), MatrixReader(matrix.shape[1]), spec)


def dataset_of_frame(
    frame: Any, y: Any, sample_weight: Any, spec: IngestSpec, numbers_too: bool, listen: Listener
) -> Dataset:
    """Return the rows of a frame, with its own labels and weights or those given apart."""
    table = arrow_table(frame, FRAME)
    part = Part(table, FRAME, y, sample_weight)
    reader = reader_of(
        table.schema, FRAME, FrameAsked(spec.reading, y is not None, sample_weight is not None, numbers_too)
    )
    if reader.layout.raw is not None:
        assert spec.reading.table is not None
        encoding = learn([FrameTable(FRAME, table.schema, reader, part)], spec.reading.table, available_cores(), listen)
        tell(encoding, listen)
        reader, spec = reader.encoded(encoding), replace(spec, bias=spec.reading.table.bias)
    made = dataset_in_memory(part, reader, spec, reader.layout.group)
    return replace(made, encoding=reader.encoding)


def dataset_in_memory(part: Part, reader: Reader, spec: IngestSpec, group: str | None = None) -> Dataset:
    """Read a part, and return its rows as a data set."""
    blocks = list(reader.blocks(part))
    if not blocks:
        problem = "no rows" if part.weight is None else "no rows of weight above 0"
        raise NoRowsError(f"{problem}; give some of two classes at least", path=part.where)
    coder = LabelCoder(spec.positive)
    numbers = [coder.numbered(block.labels, part.where) for block in blocks]
    labels = coder.finish(part.where)
    several, own = len(labels.classes), reader.n_features
    cutter = ShardCutter(spec.rows_per_shard, spec.shard_bytes, has_bias=bool(spec.bias))
    features, made = own + (1 if spec.bias else 0), list[MemoryShard]()
    counts = np.zeros(several or 2, np.int64)

    def keep(pieces: list[Piece], first: int) -> int:
        rows = join(pieces, spec.bias, own)
        made.append(memory_shard(rows, features, first))
        return first + rows.n_rows

    first = 0
    for block, number in zip(blocks, numbers, strict=True):
        values = coder.values[number]
        counts += np.bincount(values if several else (values + 1) // 2, minlength=counts.size)
        for pieces in cutter.add(block, values):
            first = keep(pieces, first)
    if last := cutter.take():
        keep(last, first)
    return Dataset(
        path=part.where,
        kind=ARRAYS,
        n_features=features,
        labels=labels,
        bias=spec.bias,
        shards=tuple(made),
        n_positive=0 if several else int(counts[1]),
        fingerprint=fingerprint([(lanes_of(shard.digest), shard.n_rows) for shard in made], features),
        bytes=sum(shard.rows.values.nbytes + shard.rows.indices.nbytes for shard in made),
        columns=reader.columns,
        class_counts=tuple(counts.tolist()) if several else (),
        group=group,
    )
