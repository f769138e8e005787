"""What a run says of itself, word for word: ``verify`` believes none of it, so that it is JSON here and no record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.dataclass import dataclass
from pipeline.errors import RunError
from pipeline.runs.directory import followed, read_header, read_steps, stored_model
from pipeline.runs.model_file import StoredModel
from pipeline.spec import PathSpec


@dataclass(frozen=True)
class SaidStep:
    """A line of steps.jsonl, which may say anything but the number of another step, and its model file."""

    facts: dict[str, Any]
    model: StoredModel

    @property
    def step(self) -> int:
        """The number of the step."""
        return int(self.facts["step"])


@dataclass(frozen=True)
class SaidRun:
    """A run directory: run.json, whose form has been checked and nothing else, and the lines of its steps."""

    path: Path
    header: dict[str, Any]
    steps: list[SaidStep]

    @property
    def spec(self) -> PathSpec:
        """The settings."""
        return PathSpec.from_json(self.header["spec"])


def read_said(path: str | Path) -> SaidRun:
    """Read a run directory that is to be judged; what is not one is an error of one line."""
    folder = followed(path)
    header, steps = read_header(folder), list[SaidStep]()
    for facts in read_steps(folder, checked=False):
        model = stored_model(folder, facts, header)
        if not model.is_there():
            raise RunError(f"{model.path}: the model is missing; run the same svmsieve path again")
        steps.append(SaidStep(facts, model))
    return SaidRun(folder, header.to_json(), steps)
