"""Scores of rows as they are in memory, or in a partition: read for a model, checked, and scored block by block.

Frames are matched by name as tables are; arrays and hashed bags must have the features that the model has, as many and
in the same order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.collections.frames import arrow_table
from pipeline.collections.kinds import is_frame
from pipeline.collections.matrices import MatrixReader, checked
from pipeline.collections.part import Part, Reader
from pipeline.collections.tables import TableReader
from pipeline.data.ingest.assemble import Piece, join
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.data.reading.layout import layout_of
from pipeline.dataclass import dataclass
from pipeline.errors import DataError, NoRowsError, SpecError
from pipeline.scoring.models import AnyModel


@dataclass(frozen=True)
class RowScorer:
    """Scores the rows of a part."""

    reader: Reader

    def __call__(self, rows: Any, where: str, model: AnyModel) -> np.ndarray:
        """Return a score a row, or one a class."""
        found = []
        for block in self.reader.blocks(Part(rows, where)):
            piece = Piece(block, np.zeros(block.n_rows, np.int8), 0, block.n_rows)
            found.append(model.block_scores(block, join([piece], model.bias, model.known)))
        if not found:
            raise NoRowsError("no rows to score; give some", path=where)
        scores = np.concatenate(found)
        finite = np.isfinite(scores) if scores.ndim == 1 else np.isfinite(scores).all(axis=1)
        if not finite.all():
            problem = f"its score by {model.run} is beyond float64's range; scale the features, and train again"
            raise DataError(problem, path=where, row=int(np.argmin(finite)))
        return scores


def memory_scores(model: AnyModel, x: Any) -> np.ndarray:
    """Return the scores of an array or a frame."""
    if is_frame(x):
        table = arrow_table(x, "X", model.columns if model.encoding is None else model.encoding.inputs)
        return RowScorer(table_reader(model, table.schema, "X"))(table, "X", model)
    matrix = checked(x, "X")
    reader = reader_that_fits(MatrixReader(matrix.shape[1], unlabelled=True), model, "array")
    return RowScorer(reader)(matrix, "X", model)


def table_reader(model: AnyModel, schema: pa.Schema, where: str) -> TableReader:
    """Return what reads tables of a schema for a model, or say in one line which column it needs."""
    options = ReadOptions(rules=ReadRules(base=0, unlabelled=True), wanted=model.columns)
    if model.encoding is not None:
        options = options.encoded(model.encoding)
    return TableReader(replace(layout_of(schema, where, options), label=None, weight=None), unlabelled=True)


def reader_that_fits(reader: Reader, model: AnyModel, kind: str) -> Reader:
    """Return a reader if it makes as many features as the model has."""
    if reader.n_features != model.known:
        problem = f"the {kind} has {reader.n_features:,} features, the model of {model.run} {model.known:,}"
        raise SpecError(f"{problem}; give the features that it was trained on, in the same order")
    return reader
