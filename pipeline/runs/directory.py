"""RUN: what a path leaves on disk, as a reader finds it.

run.json        settings, data fingerprint, versions, status, the best step, the end of the chain; sealed
steps.jsonl     one line a finished step, forced to disk as it finishes; each seals its model and the lines before it
                (see ``chain``)
models/NNNNNN.npz
trained_rows.npy
                hashes of the rows that were trained on, the smallest ones (see ``sketch_file``)

A run of several classes (``classes``) has such directories in it, one a class, and a run.json of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import RunError, shown
from pipeline.files import one_line
from pipeline.runs.checks import check_classes, check_header, check_place, check_step, read_json
from pipeline.runs.memory import MemoryPlace, Place
from pipeline.runs.model_file import StoredModel
from pipeline.runs.records import (
    CLASSES_FORMAT,
    CLASSES_READABLE,
    FORMAT,
    READABLE,
    RunHeader,
    step_fields,
)
from pipeline.runs.run import Run, StepView
from pipeline.spec import PathSpec

if TYPE_CHECKING:
    from pipeline.runs.classes import ClassesRun

HEADER, STEPS, MODELS, SCRATCH = "run.json", "steps.jsonl", "models", ".scratch"
FOLDS, SEARCH = "folds", "search"  # runs of a cross-validation, numbered; runs that a C was chosen by
PARTS = "classes"  # runs of classes against the rest, by their codes
KINDS_OF_RUNS = {shown(FORMAT): (READABLE, check_header), shown(CLASSES_FORMAT): (CLASSES_READABLE, check_classes)}


def stored_spec(path: str | Place) -> PathSpec | None:
    """Return the settings of a run directory, whatever state its steps are in; None if there is no run yet."""
    if isinstance(path, MemoryPlace):
        return None if path.header is None else path.header.spec
    folder = Path(path)
    with io_errors(folder):
        return PathSpec.from_json(read_item(folder)["spec"]) if (folder / HEADER).is_file() else None


def open_run(path: str | Place) -> Run | ClassesRun:
    """Read a run directory, of one path or of several classes; what is not one is an error of one line."""
    from pipeline.runs.classes import open_classes  # noqa: PLC0415 - which is made of runs

    if isinstance(path, MemoryPlace):
        return open_path(path) if isinstance(path.header, RunHeader) else open_classes(path)
    folder = followed(path)
    return open_classes(folder) if read_item(folder)["format"] == CLASSES_FORMAT else open_path(folder)


def open_path(path: str | Place) -> Run:
    """Read the run directory of one path; what is not one is an error of one line.

    A link such as a nightly store's ``current`` is followed once: when it moves on, this run stays the one it was.
    """
    if isinstance(path, MemoryPlace):
        return _kept_path(path)
    folder = followed(path)
    header, steps = read_header(folder), list[StepView]()
    for facts in read_steps(folder):
        model = stored_model(folder, facts, header)
        if not model.is_there():
            raise RunError(f"{model.path}: the model is missing; run the same svmsieve path again")
        steps.append(StepView(**step_fields(facts), model=model, header=header))
    return Run(folder, header, steps)


def _kept_path(place: MemoryPlace) -> Run:
    header: RunHeader = place.header
    pairs = zip(place.steps, place.models, strict=True)
    return Run(place.path, header, [StepView(**vars(step), model=model, header=header) for step, model in pairs], True)


def followed(path: str | Path) -> Path:
    """Return the run directory that a path names, be it a link."""
    with one_line(lambda reason: RunError(f"{path}: cannot be read ({reason}); name a run directory")):
        return Path(path).resolve() if Path(path).is_symlink() else Path(path)


def stored_model(folder: Path, facts: dict[str, Any], header: RunHeader) -> StoredModel:
    """Return the model of a step, which has the rows and features that run.json says, and the C of its line."""
    path = folder / MODELS / model_name(facts["step"])
    return StoredModel(path, header.data.rows, header.data.features, facts.get("c"))


def model_name(step: int) -> str:
    """Return the file name of a step's model."""
    return f"{step:06d}.npz"


def read_header(folder: Path) -> RunHeader:
    """Read and check run.json of the run of one path."""
    item = read_item(folder)
    if item["format"] == CLASSES_FORMAT:
        part = folder / PARTS / "0"
        raise RunError(f"{folder}: is a run of several classes, and one of two is needed; name one of them, as {part}")
    return RunHeader.from_json(item)


def read_item(folder: Path) -> dict[str, Any]:
    """Read and check run.json, of one path or of several classes."""
    path = folder / HEADER
    afresh = f"remove {folder} to start afresh"
    try:
        if path.exists() and not path.is_file():
            raise RunError(f"{path}: is not a file; {afresh}")
        item = read_json(path.read_text(encoding="utf-8"))
        readable, check = KINDS_OF_RUNS.get(shown(item["format"]), ((), check_header))
        if item["version"] not in readable:
            raise RunError(f"{path}: not a run of this svmsieve (version {shown(item['version'])}); {afresh}")
        check(item)
        return dict(item)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RunError(f"{folder}: no run.json: not a run directory; train with svmsieve path first") from error
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (ValueError, LookupError, TypeError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{path}: damaged ({type(error).__name__} {error}); {afresh}") from error


def read_steps(folder: Path, torn: bool = False, checked: bool = True) -> Iterator[dict[str, Any]]:
    """Yield the lines of steps.jsonl as they are; with ``torn`` up to the first that is damaged.

    Without ``checked`` a line may say anything but the number of another step: for who judges each of them.
    """
    path = folder / STEPS
    if not path.is_file():
        return
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    c_before = 0.0
    for number, line in enumerate(lines[:-1]):  # what follows the last newline is being written, or never was
        try:
            facts = read_json(line)
            if checked:
                check_step(facts, number, c_before)
                c_before = facts["c"]
            else:
                check_place(facts, number)
        except ValueError as error:
            if torn:
                return
            raise RunError(f"{path}, line {number + 1}: damaged ({error}); run the same svmsieve path again") from error
        yield facts


def io_errors(folder: Path) -> AbstractContextManager[None]:
    """Say in one line that a run directory cannot be written."""
    return one_line(lambda reason: RunError(f"{folder}: cannot be written ({reason}); finished steps stay"))
