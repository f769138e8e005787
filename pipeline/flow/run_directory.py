"""RUN: what a path leaves on disk, and what it continues from when it was interrupted.

    run.json        settings, data fingerprint, versions, status, the best step
    steps.jsonl     one line a finished step, forced to disk as it finishes
    models/NNNNNN.npz

A step counts when its line and its model are whole; a torn last line or a damaged model sends a continued run back to
the step before. So it is enough to force files to disk now and then: a power cut costs the steps since.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import RunError
from pipeline.files import locked, one_line, write_json
from pipeline.flow.model_file import StoredModel, write_model
from pipeline.spec import PathSpec

SECONDS_BETWEEN_SYNCS = 0.5
FORMAT, VERSION = "svmsieve-run", 1
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
    with _io_errors(folder):
        return PathSpec.from_json(_read_header(folder)["spec"]) if (folder / HEADER).is_file() else None


def open_run(path: str | Path) -> Run:
    """Read a run directory; what is not one is an error of one line."""
    folder = Path(path)
    header = _read_header(folder)
    steps = []
    for facts in _read_steps(folder):
        model = StoredModel(folder / MODELS / model_name(facts["step"]))
        if not model.path.is_file():
            raise RunError(f"{model.path}: the model is missing; run the same svmsieve path again")
        steps.append(StepView(facts, model, header))
    return Run(folder, header, steps)


def model_name(step: int) -> str:
    """Return the file name of a step's model."""
    return f"{step:06d}.npz"


class RunWriter:
    """Appends to a run directory. ``steps`` are the finished ones, those of an earlier attempt included."""

    def __init__(self, folder: Path, header: dict[str, Any], steps: list[dict[str, Any]]) -> None:
        self.folder, self.header, self.steps = folder, header, steps
        self.stream = (folder / STEPS).open("a", encoding="utf-8")
        self.synced = 0.0

    def append(
        self, facts: dict[str, Any], w: np.ndarray, alpha: np.ndarray, verdicts: np.ndarray, w_alpha: np.ndarray | None
    ) -> dict[str, Any]:
        """Write a finished step: its model first, then its line."""
        number = len(self.steps)
        sync = time.monotonic() - self.synced > SECONDS_BETWEEN_SYNCS
        write_model(self.folder / MODELS / model_name(number), facts["c"], w, alpha, verdicts, w_alpha, sync)
        line = {"step": number, **facts}
        self.stream.write(json.dumps(line) + "\n")
        self.stream.flush()
        if sync:
            os.fsync(self.stream.fileno())
            self.synced = time.monotonic()
        self.steps.append(line)
        return line

    def model(self, step: int) -> StoredModel:
        """Return the model of a finished step."""
        return StoredModel(self.folder / MODELS / model_name(step))

    def update(self, **items: Any) -> None:
        """Change run.json."""
        self.header |= items
        write_json(self.folder / HEADER, self.header)

    def scratch(self) -> Path:
        """Return a folder for temporary files on the same disk."""
        folder = self.folder / SCRATCH
        folder.mkdir(exist_ok=True)
        return folder


@contextmanager
def writing(path: str | Path, spec: PathSpec, data: dict[str, Any], versions: dict[str, str]) -> Iterator[RunWriter]:
    """Open a run directory, new or to be continued, for the only writer."""
    folder = Path(path).resolve()
    with _io_errors(folder):
        _make(folder)
    with alone_in(folder):
        header = _matching_header(folder, spec, data, versions)
        _remove_half_written(folder)
        steps = _keep_whole_steps(folder)
        writer = RunWriter(folder, header, steps)
        try:
            if header["status"] == "finished" and len(steps) < header["n_steps"]:
                writer.update(status="running")  # models were lost since: the missing steps are trained again
            yield writer
        finally:
            shutil.rmtree(folder / SCRATCH, ignore_errors=True)
            writer.stream.close()


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a run directory's only writer; what cannot be written there is an error of one line."""
    busy = RunError(f"{folder}: another svmsieve is running there; wait for it to finish")
    with _io_errors(folder), locked(folder, busy):
        yield


def _make(folder: Path) -> None:
    """Make the directory, or accept one that is empty, a run, or what is left of one that had hardly begun.

    Steps without a run.json are none of those: nobody knows their settings.
    """
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder}: is a file; choose another --out")
    if folder.is_dir() and not (folder / HEADER).exists():
        names = {entry.name for entry in folder.iterdir()} - {f"{HEADER}.tmp", MODELS}
        if STEPS in names:
            raise RunError(f"{folder}: has lost its {HEADER}; remove {folder} to start afresh, or choose another --out")
        if names or ((folder / MODELS).exists() and any((folder / MODELS).iterdir())):
            raise RunError(f"{folder}: exists and is not a run; choose another --out")
    (folder / MODELS).mkdir(parents=True, exist_ok=True)


def _matching_header(folder: Path, spec: PathSpec, data: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    afresh = f"remove {folder} to start afresh, or choose another --out"
    if not (folder / HEADER).is_file():
        header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "status": "running"}
        header |= {"spec": spec.to_json(), "data": data, "versions": versions}
        write_json(folder / HEADER, header)
        return header
    header = _read_header(folder)
    if header["data"]["fingerprint"] != data["fingerprint"]:
        raise RunError(f"{folder}: was made from other data ({header['data']['path']}); {afresh}")
    changed = spec.difference(PathSpec.from_json(header["spec"]))
    if changed:
        raise RunError(f"{folder}: was made with other settings ({changed}); {afresh}")
    for what in ("validation", "reference"):
        if header["data"].get(what) != data.get(what):
            raise RunError(f"{folder}: was made with other {what} data; {afresh}")
    return header


def _remove_half_written(folder: Path) -> None:
    for path in (*folder.glob("*.tmp"), *(folder / MODELS).glob("*.tmp")):
        path.unlink()


def _keep_whole_steps(folder: Path) -> list[dict[str, Any]]:
    """Return the steps that count and cut the rest off.

    Every model is read: after a power cut any of those that were not forced to disk may be damaged, not only the last.
    """
    whole: list[dict[str, Any]] = []
    for facts in _read_steps(folder, torn=True):
        if not StoredModel(folder / MODELS / model_name(len(whole))).is_whole():
            break
        whole.append(facts)
    text = "".join(json.dumps(facts) + "\n" for facts in whole).encode()
    path = folder / STEPS
    if not path.is_file() or path.read_bytes() != text:
        temporary = folder / f"{STEPS}.tmp"
        temporary.write_bytes(text)
        temporary.replace(path)
    return whole


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    afresh = f"remove {folder} to start afresh"
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        if header["format"] != FORMAT or header["version"] != VERSION:
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


def _read_steps(folder: Path, torn: bool = False) -> Iterator[dict[str, Any]]:
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


def _io_errors(folder: Path) -> AbstractContextManager[None]:
    return one_line(lambda reason: RunError(f"{folder}: cannot be written ({reason}); finished steps stay"))
