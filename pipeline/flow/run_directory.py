"""RUN: what a path leaves on disk, as a reader finds it.

run.json        settings, data fingerprint, versions, status, the best step, the end of the chain
steps.jsonl     one line a finished step, forced to disk as it finishes; each seals its model and the lines before it
                (see ``chain``)
models/NNNNNN.npz

"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import RunError
from pipeline.files import one_line
from pipeline.flow.model_file import StoredModel
from pipeline.spec import PathSpec

FORMAT, VERSION = "svmsieve-run", 2
READABLE = (1, 2)  # from 2 on primal, dual and relative_gap are bounds in exact arithmetic, and steps are chained
HEADER, STEPS, MODELS, SCRATCH = "run.json", "steps.jsonl", "models", ".scratch"


class StepView:
    """A finished step: the keys of its line as attributes, and ``w``, ``alpha``, ``verdicts`` read from its model.

    ``spec`` and ``data`` are what run.json says of the run's settings and data; ``home`` keeps a temporary run
    directory alive.
    """

    def __init__(self, facts: dict[str, Any], model: StoredModel, header: dict[str, Any]) -> None:
        self.facts, self.model, self.data = facts, model, header["data"]
        self.spec = PathSpec.from_json(header["spec"])
        self.fingerprint: str = self.data["fingerprint"]
        self.class_weights: tuple[float, float] = tuple(header.get("class_weights", (1.0, 1.0)))
        self.home: object = None

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(f"a step has no {name!r}; it has {', '.join(self.__dict__['facts'])}") from None

    @property
    def w(self) -> np.ndarray:
        """The weights, dense."""
        return self.model.w()

    @property
    def alpha(self) -> np.ndarray:
        """The dual variables, dense, in row order."""
        return self.model.alpha()

    @property
    def verdicts(self) -> np.ndarray:
        """0 KEEP, 1 ZERO, 2 UPPER by row, as screened before the solve."""
        return self.model.verdicts()

    def __repr__(self) -> str:
        return f"<step {self.step}: C = {self.c:g}, relative gap {self.relative_gap:.1e}>"


@dataclass(frozen=True)
class Run:
    """A run directory as it is on disk."""

    path: Path
    header: dict[str, Any]
    steps: list[StepView]

    @property
    def spec(self) -> PathSpec:
        """The settings."""
        return PathSpec.from_json(self.header["spec"])

    @property
    def best(self) -> StepView:
        """The step with the best score, the last one if nothing was scored."""
        self._check_steps()
        if self.header["spec"].get("cv") and "cv_scores" not in self.header:
            raise RunError(f"{self.path}: its folds are not finished; run the same svmsieve path again, or name a C")
        return self.steps[min(self.header.get("best_step", len(self.steps) - 1), len(self.steps) - 1)]

    def at(self, c: float | None) -> StepView:
        """Return the step with this C, or the best one; a C between two steps belongs to the one before."""
        if c is None:
            return self.best
        self._check_steps()
        exact = [step for step in self.steps if abs(step.c - c) <= 1e-12 * c]
        below = exact or [step for step in self.steps if step.c <= c]
        if not below:
            raise RunError(f"{self.path}: there is no model for C = {c:g}; the smallest C is {self.steps[0].c:g}")
        return below[-1]

    def _check_steps(self) -> None:
        if not self.steps:
            raise RunError(f"{self.path}: the run has no finished step; run the same svmsieve path again")


def stored_spec(path: str | Path) -> PathSpec | None:
    """Return the settings of a run directory, whatever state its steps are in; None if there is no run yet."""
    folder = Path(path)
    with io_errors(folder):
        return PathSpec.from_json(read_header(folder)["spec"]) if (folder / HEADER).is_file() else None


def open_run(path: str | Path) -> Run:
    """Read a run directory; what is not one is an error of one line."""
    folder = Path(path)
    header = read_header(folder)
    steps = []
    for facts in read_steps(folder):
        model = StoredModel(folder / MODELS / model_name(facts["step"]))
        if not model.path.is_file():
            raise RunError(f"{model.path}: the model is missing; run the same svmsieve path again")
        steps.append(StepView(facts, model, header))
    return Run(folder, header, steps)


def model_name(step: int) -> str:
    """Return the file name of a step's model."""
    return f"{step:06d}.npz"


def read_header(folder: Path) -> dict[str, Any]:
    """Read and check run.json."""
    path = folder / HEADER
    afresh = f"remove {folder} to start afresh"
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        if header["format"] != FORMAT or header["version"] not in READABLE:
            raise RunError(f"{path}: not a run of this svmsieve (version {header['version']}); {afresh}")
        PathSpec.from_json(header["spec"])
        texts = (header["status"], header["data"]["fingerprint"], header["data"]["path"])
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a field has the wrong type")
        if header["status"] == "finished":
            int(header["n_steps"])
    except FileNotFoundError as error:
        raise RunError(f"{folder}: no run.json: not a run directory; train with svmsieve path first") from error
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{path}: damaged ({type(error).__name__} {error}); {afresh}") from error
    return header


def read_steps(folder: Path, torn: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the lines of steps.jsonl; with ``torn`` up to the first that is damaged."""
    path = folder / STEPS
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines[:-1]):  # what follows the last newline is being written, or never was
        try:
            facts = json.loads(line)
            if facts["step"] != number:
                raise ValueError(f"step {facts['step']} stands where {number} should")
        except (ValueError, LookupError, TypeError) as error:
            if torn:
                return
            raise RunError(f"{path}, line {number + 1}: damaged ({error}); run the same svmsieve path again") from error
        yield facts


def io_errors(folder: Path) -> AbstractContextManager[None]:
    """Say in one line that a run directory cannot be written."""
    return one_line(lambda reason: RunError(f"{folder}: cannot be written ({reason}); finished steps stay"))
