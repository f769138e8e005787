"""What is in the columns of a Dask frame, learnt where its partitions are: they come together in a tree of merges.

Statistics of a part are what a survey of a file's batches is (``data/tables``), and merged in the order of the parts.
The tree depends on the number of partitions alone, so that the same frame gives the same encoding on every scheduler.
What is merged stays as small as a survey is allowed to be; one of them comes back here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dask
import pyarrow as pa

from pipeline.collections.frame_table import FrameTable, tell
from pipeline.collections.part import Part
from pipeline.collections.partitioned import Partitioned
from pipeline.collections.tables import TableReader
from pipeline.data.tables.decide import Columns, decide, questions
from pipeline.data.tables.encoding import Encoding
from pipeline.data.tables.learn import Survey, settled_plan
from pipeline.data.tables.plan import TablePlan
from pipeline.data.tables.survey import ColumnFound, Question, look
from pipeline.engine.delayed import computed
from pipeline.engine.engine import Engine
from pipeline.errors import NoRowsError
from pipeline.events import Listener, Note

FAN_IN = 8  # surveys that are merged at a time: each may hold some 100 MB


def learn_partitions(
    source: Partitioned, schema: pa.Schema, plan: TablePlan, engine: Engine, listen: Listener
) -> Encoding:
    """Compute a frame of this schema once, and return what is to be done with its columns."""
    assert isinstance(source.reader, TableReader)
    plan, kinds = settled_plan([FrameTable(source.name, schema, source.reader)], plan)
    wanted = questions(plan, kinds)
    held = dask.delayed((source.reader, wanted), traverse=False, pure=False)
    surveyed, merged = (dask.delayed(each, pure=False, traverse=False) for each in (survey_part, merged_surveys))
    nothing = (None,) * len(source.x)
    level: list[Any] = [
        surveyed(held, source.where(k), x, y, weight)
        for k, (x, y, weight) in enumerate(zip(source.x, source.y or nothing, source.weight or nothing, strict=True))
    ]
    while len(level) > 1:
        level = [merged(held, level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
    listen(Note(f"{source.name}: a first look at {len(source.x):,} partitions, then they are written"))
    (found,) = computed(level, engine.backend)
    if not any(each.rows for each in found.values()):
        raise NoRowsError("no rows in any partition; see what the filters before it leave", path=source.name)
    encoding = decide(plan, kinds, found, source.name)
    tell(encoding, listen)
    return encoding


def survey_part(
    held: tuple[TableReader, dict[Columns, Question]], where: str, x: Any, y: Any, weight: Any
) -> dict[Columns, ColumnFound]:
    """Look at the columns of a partition; runs on the worker that has it."""
    reader, wanted = held
    survey = Survey(wanted)
    for batch, origin in reader.batches(Part(x, where, y, weight)):
        survey.add(look(batch, wanted, origin))
    return survey.found


def merged_surveys(
    held: tuple[TableReader, dict[Columns, Question]], parts: list[Mapping[Columns, ColumnFound]]
) -> dict[Columns, ColumnFound]:
    """Return what several parts, one after the other, say together."""
    survey = Survey(held[1])
    for part in parts:
        survey.merge(part)
    return survey.found
