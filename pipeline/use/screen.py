"""Screening on its own: verdicts and bounds for every row at C, from a trained model, without training."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.budget import default_budget
from pipeline.data.dataset import Dataset
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.maths.verdicts import KEEP, UPPER, ZERO, Screened, verdicts
from pipeline.path.c_range import Range
from pipeline.path.point import CertifiedPoint, PointProof
from pipeline.path.spaces import make_space, projected
from pipeline.runs.run import StepView
from pipeline.spec import PathSpec
from pipeline.use.output import GROUP, table_to
from pipeline.use.predictions import with_ids
from pipeline.use.tables import numbers
from pipeline.working.facts import collect
from pipeline.working.state import RowState

if TYPE_CHECKING:
    from pipeline.data.ids import ShardIds
    from pipeline.data.reading.ids import IdColumns

SCHEMA = pa.schema([("verdict", pa.int8()), ("lower", pa.float64()), ("upper", pa.float64())])


@dataclass(frozen=True)
class Screening:
    """What a reference proves about the rows of a data set at some C."""

    state: RowState
    point: CertifiedPoint
    proof: PointProof

    def parts(self) -> Iterator[Screened]:
        """Yield bounds and verdicts, part after part in row order; rows left out of training are ZERO."""
        for part in self.state.chunks():
            lower, upper = self.proof.bounds(part)
            found = verdicts(lower, upper)
            found[self.state.costs[part] == 0.0] = ZERO
            yield Screened(lower, upper, found)


def screening(
    engine: Engine,
    data: Dataset,
    step: StepView,
    c: float,
    rule: str = "it",
    memory: int | None = None,
    spec: PathSpec | None = None,
) -> Screening:
    """Certify the reference step on the data and make its region at C = ``c``.

    Costs and the rows left out are those of ``spec``, by default those that the step was trained with.
    """
    data.expect_two_classes("screening")
    spec = spec or step.spec
    if not (np.isfinite(c) and c > 0):
        raise SpecError(f"C must be a positive finite number, not {c!r}")
    spec = replace(spec, rule=rule, memory=memory or default_budget())
    plan = projected(engine, data, spec)
    state = collect(engine, data, spec, _scratch(step) if plan.scratch else None)
    space = make_space(engine, data, state, spec, plan)
    Range(state).check((c, step.c))
    try:
        point = space.certify(float(step.c), space.carried(step, spec))
        return Screening(state, point, point.proof(c, rule))
    finally:
        space.release()


def _scratch(step: StepView) -> Path:
    """Return a folder for files without names: beside the model, if that is on disk."""
    beside = step.model.path.parent
    return beside if beside.is_dir() else Path(tempfile.gettempdir())


def screen(data: Dataset, step: StepView, c: float, rule: str = "it", scheduler: str = "threads") -> Screened:
    """Return verdicts and bounds of all rows at C = ``c``, proven from a step of any run."""
    with Engine(scheduler) as engine:
        parts = list(screening(engine, data, step, c, rule).parts())
    return Screened(*(np.concatenate([getattr(p, key) for p in parts]) for key in ("lower", "upper", "verdicts")))


def screen_to(out: str | Path, found: Screening, ids: IdColumns | ShardIds | None = None) -> dict[int, int]:
    """Write verdict, lower and upper of every row to a file, ids first; return how many rows have which verdict."""
    counts = dict.fromkeys((KEEP, ZERO, UPPER), 0)
    schema = with_ids(SCHEMA, ids)
    with table_to(out, schema, GROUP, ids is not None) as write:
        for part in found.parts():
            found.state.verdicts[sum(counts.values()) :][: part.verdicts.size] = part.verdicts
            columns = [] if ids is None else ids.take(part.verdicts.size).columns
            write(pa.table([*columns, *map(numbers, (part.verdicts, part.lower, part.upper))], schema=schema))
            for verdict in counts:
                counts[verdict] += int(np.count_nonzero(part.verdicts == verdict))
        if ids is not None:
            ids.finish()
    return counts
