"""A run that is kept in memory: what ``directory`` and ``model_file`` are for one on disk.

A ``MemoryPlace`` stands where the path of a run directory does, and has the places of folds, classes and searches in it
by the names that their folders would have. A model's arrays are kept as its file would have them (nonzero entries,
verdicts in bits), so that a long path over many rows takes in memory what it would on disk. Nothing is chained: nobody
else can write here.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import BudgetError
from pipeline.maths.row_sketch import RowSketch
from pipeline.maths.verdicts import KEEP, UPPER, ZERO
from pipeline.runs.model_file import model_digest
from pipeline.runs.records import RunHeader, StepRecord

IN_MEMORY = Path("(in memory)")


class MemoryPlace:
    """Where a run is kept; ``path`` is what people call it."""

    def __init__(self, path: Path = IN_MEMORY) -> None:
        self.path = path
        self.header: Any = None
        self.steps: list[StepRecord] = []
        self.models: list[MemoryModel] = []
        self._inside: dict[str, MemoryPlace] = {}

    def __truediv__(self, name: str) -> MemoryPlace:
        if name not in self._inside:
            self._inside[name] = MemoryPlace(self.path / name)
        return self._inside[name]

    def __str__(self) -> str:
        return str(self.path)


Place = Path | MemoryPlace


@dataclass(frozen=True, eq=False)
class MemoryModel:
    """A model in memory, with all that a ``StoredModel`` offers."""

    path: Path
    c: float
    n_rows: int
    n_features: int
    _w: np.ndarray = field(repr=False)
    _alpha: tuple[np.ndarray, np.ndarray] = field(repr=False)
    _bits: tuple[np.ndarray, np.ndarray] = field(repr=False)
    _w_alpha: np.ndarray | None = field(repr=False)

    @classmethod
    def of(
        cls,
        path: Path,
        c: float,
        w: np.ndarray,
        alpha: np.ndarray,
        verdicts: np.ndarray,
        w_alpha: np.ndarray | None,
    ) -> MemoryModel:
        """Keep a model."""
        index = np.flatnonzero(alpha)
        bits = np.packbits(verdicts == ZERO), np.packbits(verdicts == UPPER)
        apart = None if w_alpha is None else w_alpha.copy()
        return cls(path, c, alpha.size, w.size, w.copy(), (index, alpha[index]), bits, apart)

    def is_there(self) -> bool:
        """Whether there is a model at all."""
        return True

    def w(self) -> np.ndarray:
        """The weights, dense."""
        return self._w.copy()

    def alpha(self, out: np.ndarray | None = None) -> np.ndarray:
        """The dual variables, dense, in row order; into ``out`` (at least as long, zero beyond) if that is given."""
        full = np.zeros(self.n_rows) if out is None else out
        full[:] = 0.0
        full[self._alpha[0]] = self._alpha[1]
        return full

    def w_alpha(self) -> np.ndarray | None:
        """The vector sum alpha_i z_i if it is another than w."""
        return None if self._w_alpha is None else self._w_alpha.copy()

    def verdicts(self) -> np.ndarray:
        """KEEP, ZERO or UPPER by row, as screened before the solve."""
        found = np.full(self.n_rows, KEEP, np.int8)
        for bits, verdict in zip(self._bits, (ZERO, UPPER), strict=True):
            found[np.unpackbits(bits, count=self.n_rows).astype(bool)] = verdict
        return found

    def digest(self) -> str:
        """Return the hash that the model's file would have."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return model_digest(self.c, self._w, self.alpha(), self.verdicts(), self._w_alpha)


class MemoryWriter:
    """Keeps the steps of one run: a ``StepWriter``."""

    def __init__(self, place: MemoryPlace, header: RunHeader) -> None:
        self.place, self.header = place, header
        self.place.header = header

    @property
    def folder(self) -> Path:
        """What people call the place."""
        return self.place.path

    @property
    def steps(self) -> list[StepRecord]:
        """The finished steps."""
        return self.place.steps

    def append(
        self, record: StepRecord, w: np.ndarray, alpha: np.ndarray, verdicts: np.ndarray, w_alpha: np.ndarray | None
    ) -> StepRecord:
        """Keep a finished step, which gets its number."""
        number = len(self.steps)
        path = self.folder / f"step {number}" / "model"
        self.place.models.append(MemoryModel.of(path, record.c, w, alpha, verdicts, w_alpha))
        self.steps.append(replace(record, step=number))
        return self.steps[-1]

    is_settled = True

    def settle(self) -> None:
        """Return: what is kept in memory is kept at once."""

    def finish(self, **items: Any) -> None:
        """Change what is said of the run for the last time."""
        self.update(status="finished", n_steps=len(self.steps), **items)

    def update(self, **items: Any) -> None:
        """Change what is said of the run."""
        self.header = self.header.updated(**items)
        self.place.header = self.header

    def model(self, step: int) -> MemoryModel:
        """Return the model of a finished step."""
        return self.place.models[step]

    def keep(self, trained: RowSketch) -> None:
        """Keep no sketch: who has the run has the rows."""
        del trained

    def scratch(self) -> Path:
        """Raise: arrays that do not fit into memory need a folder."""
        raise BudgetError("arrays by row take more than their share of memory; raise memory, or name a folder as out")
