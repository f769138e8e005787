"""Which space a run lives in, and how its memory is divided."""

from __future__ import annotations

from pipeline.budget import Budget, KernelProjection, project, project_kernel
from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.errors import SpecError
from pipeline.path.linear import LinearSpace
from pipeline.path.space import Space
from pipeline.spec import PathSpec
from pipeline.working.held import bytes_held
from pipeline.working.state import RowState


def projected(engine: Engine, data: Dataset, spec: PathSpec, part: int | None = None, carried: bool = False) -> Budget:
    """Divide the memory of a run, or say that it is too small.

    A run that has ``part`` of it, others running beside it, has no workers of its own: they are all the runs'.
    ``carried``: its steps may start from models of other runs.
    """
    where, memory = engine.backend, part or spec.memory
    if spec.kernel != "linear":
        if engine.pinned is not None:
            raise SpecError("a kernel's problem is solved where the command runs; leave --solve-on worker out")
        largest = max(shard.n_rows for shard in data.shards)
        beside = where.in_process or where.name == "processes"  # a cluster's workers have memory of their own
        return project_kernel(data.n_rows, data.n_features, largest, memory, where.workers, beside, carried)
    if part is None:
        processes = where.workers if where.name == "processes" else 0
        size = data.n_rows, data.n_features, memory, where.workers, processes, where.in_process
        projection = project(*size, reads_less=spec.reads_less, carried=carried)
    else:
        projection = project(data.n_rows, data.n_features, memory, reads_less=spec.reads_less, carried=carried)
    if engine.pinned is not None:
        engine.pinned.reserve(projection.on_worker(bytes_held(data.n_rows, data.nnz, wide=True)))
    return projection


def make_space(engine: Engine, data: Dataset, state: RowState, spec: PathSpec, budget: Budget) -> Space:
    """Return the space of a run, which may make the state's norms those of its own."""
    if isinstance(budget, KernelProjection):
        from pipeline.path.kernel import KernelSpace  # noqa: PLC0415 - compiled code that linear runs do not need

        return KernelSpace(engine, data, state, spec, budget)
    return LinearSpace(engine, data, state, spec, budget)
