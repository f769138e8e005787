"""Paths over the same rows that are trained together: folds of a cross-validation, classes one against the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.events import Listener, silent
from pipeline.path.path import run_path
from pipeline.runs.directory import Run, StepView
from pipeline.spec import PathSpec


@dataclass(frozen=True)
class Problem:
    """A path to be trained: rows with labels of its own, and what else ``run_path`` takes."""

    data: Dataset
    spec: PathSpec
    out: Path
    validation: Dataset | None = None
    references: Sequence[StepView] = ()


def run_together(engine: Engine, problems: Sequence[Problem], listen: Listener = silent) -> list[Run]:
    """Train all of them, or go on with what is there; return their runs."""
    return [
        run_path(engine, each.data, each.spec, each.out, each.validation, listen, each.references) for each in problems
    ]
