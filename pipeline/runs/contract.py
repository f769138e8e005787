"""What training needs of who keeps a run, and what a model offers, be they on disk or in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pipeline.maths.row_sketch import RowSketch
from pipeline.runs.records import RunHeader, StepRecord
from pipeline.runs.sketch_file import SketchRecord


class KeptModel(Protocol):
    """The model of a step; arrays are read when they are asked for."""

    @property
    def path(self) -> Path: ...  # noqa: D102
    @property
    def c(self) -> float: ...  # noqa: D102
    def is_there(self) -> bool:
        """Whether there is a model at all."""
        ...

    def w(self) -> np.ndarray:
        """The weights, dense."""
        ...

    def alpha(self, out: np.ndarray | None = None) -> np.ndarray:
        """The dual variables, dense, in row order; into ``out`` (at least as long, zero beyond) if that is given."""
        ...

    def w_alpha(self) -> np.ndarray | None:
        """The vector sum alpha_i z_i if it is another than w."""
        ...

    def verdicts(self) -> np.ndarray:
        """KEEP, ZERO or UPPER by row, as screened before the solve."""
        ...

    def digest(self) -> str:
        """Return a hash: the same for the same model, whatever run it is in."""
        ...


class StepWriter(Protocol):
    """Keeps finished steps, those of an earlier attempt included, and what is said of the run."""

    @property
    def header(self) -> RunHeader: ...  # noqa: D102
    @property
    def folder(self) -> Path: ...  # noqa: D102
    @property
    def steps(self) -> list[StepRecord]: ...  # noqa: D102
    def append(
        self, record: StepRecord, w: np.ndarray, alpha: np.ndarray, verdicts: np.ndarray, w_alpha: np.ndarray | None
    ) -> StepRecord:
        """Keep a finished step, at once or soon; return it with its number."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether all steps are kept, as far as anybody has looked."""
        ...

    def settle(self) -> None:
        """Wait until all steps are kept."""
        ...

    def finish(self, **items: Any) -> None:
        """Change what is said of the run for the last time."""
        ...

    def update(self, **items: Any) -> None:
        """Change what is said of the run."""
        ...

    def model(self, step: int) -> KeptModel:
        """Return the model of a finished step."""
        ...

    def keep(self, trained: RowSketch) -> SketchRecord | None:
        """Keep which rows the run is trained on; return what the header is to say of it."""
        ...

    def scratch(self) -> Path:
        """Return a folder for temporary files."""
        ...
