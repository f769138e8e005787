"""What ``verify`` must know of the space that a run's models live in: vectors w, or coefficients of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.spec import PathSpec
from pipeline.verify import recompute, recompute_kernel
from pipeline.verify.start import TrueStart, start_of_path
from pipeline.verify.stored_model import Model
from pipeline.verify.tally import Worth
from pipeline.verify.trained_rows import TrainedRows

Seen = Callable[[int], None]  # is told of rows that were read


class SpaceOfRun(Protocol):
    """Computes again what a run says: ``batch`` models a pass, the start of the path in ``start_passes``."""

    batch: int
    start_passes: int

    def start(self, seen: Seen) -> TrueStart:
        """Find the start of the path."""
        ...

    def worth(self, models: Sequence[Model], seen: Seen) -> list[Worth]:
        """Return what models are worth."""
        ...

    def wrong_kind(self, model: Model) -> str:
        """Say why a model is none of this space; empty if it is."""
        ...


class _Vectors:
    start_passes = 2

    def __init__(self, engine: Engine, data: Dataset, rows: TrainedRows) -> None:
        self.about = engine, data, rows.costs
        self.batch = recompute.batch_size(data, engine.backend.workers, rows.held_out.size)

    def start(self, seen: Seen) -> TrueStart:
        return start_of_path(*self.about, seen)

    def worth(self, models: Sequence[Model], seen: Seen) -> list[Worth]:
        return recompute.recompute(*self.about, models, seen)

    def wrong_kind(self, model: Model) -> str:
        return ""


class _Coefficients:
    start_passes = 1

    def __init__(self, engine: Engine, data: Dataset, rows: TrainedRows, spec: PathSpec) -> None:
        self.kernel, self.about = spec.kernel, (engine, data, spec, rows)
        self.batch = recompute_kernel.batch_size(data, engine.backend.workers, rows.held_out.size)

    def start(self, seen: Seen) -> TrueStart:
        return recompute_kernel.kernel_start(*self.about, seen)

    def worth(self, models: Sequence[Model], seen: Seen) -> list[Worth]:
        return recompute_kernel.recompute_kernel(*self.about, models, seen)

    def wrong_kind(self, model: Model) -> str:
        weights = model.w[0].size or model.w_alpha[0].size
        return f"its model has weights, but a model of kernel {self.kernel} has none" if weights else ""


def space_of(engine: Engine, data: Dataset, rows: TrainedRows, spec: PathSpec) -> SpaceOfRun:
    """Return the space of a run with these settings."""
    return _Vectors(engine, data, rows) if spec.kernel == "linear" else _Coefficients(engine, data, rows, spec)
