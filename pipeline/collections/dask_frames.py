"""Dask frames as partitions: each is a pandas frame on its worker, read as any other frame is."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from pipeline.collections.dask_arrays import aligned
from pipeline.collections.frames import arrow_table
from pipeline.collections.partitioned import Partitioned
from pipeline.collections.tables import FrameAsked, reader_of
from pipeline.errors import DataError

NAME = "the Dask frame"


def partitions_of_frame(frame: Any, y: Any, weight: Any, asked: FrameAsked) -> Partitioned:
    """Return the partitions of a Dask frame; without ``y`` the labels are in the column that ``asked`` names."""
    if not hasattr(frame, "columns") or getattr(frame, "ndim", 2) != 2:
        raise DataError(f"is a {type(frame).__name__}; rows are those of a frame: pass s.to_frame()", path=NAME)
    reader = reader_of(schema_of(frame), NAME, asked)
    lengths = (math.nan,) * frame.npartitions
    labels, weights = aligned(y, lengths, "y"), aligned(weight, lengths, "sample_weight")
    return Partitioned(NAME, tuple(frame.to_delayed()), labels, weights, reader, reader.layout.group)


def schema_of(frame: Any) -> pa.Schema:
    """Return the Arrow schema that partitions should have, from Dask's own example of one."""
    return arrow_table(frame._meta_nonempty, NAME).schema
