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

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np

from pipeline.dataclass import dataclass
from pipeline.errors import RunError, shown
from pipeline.events import Listener, Note, silent
from pipeline.files import one_line
from pipeline.maths.score import best
from pipeline.runs.checks import check_classes, check_header, check_place, check_step, read_json
from pipeline.runs.contract import KeptModel
from pipeline.runs.data_record import DataRecord
from pipeline.runs.memory import MemoryPlace, Place
from pipeline.runs.model_file import StoredModel
from pipeline.runs.records import (
    CLASSES_FORMAT,
    CLASSES_READABLE,
    FORMAT,
    READABLE,
    RunHeader,
    Scores,
    StepRecord,
    step_fields,
)
from pipeline.runs.tables import frame_of, html_of
from pipeline.spec import PathSpec

if TYPE_CHECKING:
    from pipeline.runs.classes import ClassesRun
    from pipeline.runs.weights import TopWeights

HEADER, STEPS, MODELS, SCRATCH = "run.json", "steps.jsonl", "models", ".scratch"
FOLDS, SEARCH = "folds", "search"  # runs of a cross-validation, numbered; runs that a C was chosen by
PARTS = "classes"  # runs of classes against the rest, by their codes
KINDS_OF_RUNS = {shown(FORMAT): (READABLE, check_header), shown(CLASSES_FORMAT): (CLASSES_READABLE, check_classes)}
MOST_C_SHOWN = 8  # of a run in one line


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StepView(StepRecord):
    """A finished step: its record, and its model on disk."""

    model: KeptModel
    """The model file; what is in it is read when it is asked for."""
    header: RunHeader
    """What run.json says of the run."""
    home: object = None
    """Keeps a temporary run directory alive."""

    __eq__, __hash__ = object.__eq__, object.__hash__

    @property
    def spec(self) -> PathSpec:
        """The run's settings."""
        return self.header.spec

    @property
    def data(self) -> DataRecord:
        """What run.json says of the data."""
        return self.header.data

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the data."""
        return self.header.data.fingerprint

    @property
    def class_weights(self) -> tuple[float, float]:
        """What the costs of negative and positive rows were multiplied by."""
        return self.header.class_weights or (1.0, 1.0)

    @property
    def scored(self) -> Scores:
        """The scores, where there must be some; else RunError."""
        if self.scores is None:
            raise RunError(f"{self.model.path}: nothing was scored; train with --holdout, --cv or --validation")
        return self.scores

    @property
    def w(self) -> np.ndarray:
        """The weights, dense; RunError for a kernel's model, which has none."""
        if self.spec.kernel != "linear":
            problem = f"a model of kernel {self.spec.kernel} has no weights w"
            raise RunError(f"{self.model.path}: {problem}; use its alpha, or predict with the run")
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


class AtC(Protocol):
    """What is there for one C: a step, or those of several classes."""

    @property
    def step(self) -> int: ...  # noqa: D102
    @property
    def c(self) -> float: ...  # noqa: D102
    @property
    def scores(self) -> Scores | None: ...  # noqa: D102


S = TypeVar("S", bound=AtC)


class RunOf(Generic[S]):
    """A run directory as it is on disk, and how a model of it is chosen."""

    path: Path
    """The run directory."""
    header: Any
    """What run.json says."""
    steps: list[S]
    """The finished steps, by ascending C."""

    @property
    def spec(self) -> PathSpec:
        """The settings."""
        found: PathSpec = self.header.spec
        return found

    @property
    def is_finished(self) -> bool:
        """Whether all steps are there, and the folds' scores where there are folds."""
        return self.header.is_finished and (self.header.cv_scores is not None or not self.spec.cv)

    @property
    def scores(self) -> Sequence[Scores | None]:
        """What each step scored: on the folds, or on the rows left out of training; None where nothing was scored."""
        found, tuned = self.header.cv_scores, self.header.cv_c
        if found is None:
            return [step.scores for step in self.steps]
        return found if tuned is None else [found[tuned.index(step.c)] for step in self.steps]

    @property
    def best_step(self) -> int | None:
        """The number of the step with the best score so far, or of the only step; None if no step has a score."""
        count = len(self.steps)
        return 0 if count == 1 and self.header.is_finished else best(self.scores[:count], self.spec.select)

    @property
    def best(self) -> S:
        """The step with the best score (in a run that is not finished, so far), or the only step; else RunError."""
        self._check_steps()
        if self.spec.cv and self.header.cv_scores is None:
            raise RunError(f"{self.path}: its folds are not finished; run the same svmsieve path again, or name a C")
        number = self.best_step
        if number is None:
            select = self.spec.select.replace("_", " ")
            why = "nothing was scored" if not any(self.scores) else f"no step has a score ({select})"
            raise RunError(f"{self.path}: {why}, so that no step is the best; name one with --c C: {self._all_c()}")
        return self.steps[number]

    def calibration_of(self, c: float) -> Any:
        """Return what makes probabilities of the scores of the model at C, of each class if there are several."""
        found = self.header.calibration
        if found is None:
            raise RunError(f"{self.path}: has no calibration, and so no probabilities; svmsieve tune makes one")
        for each in found if isinstance(found, tuple) else (found,):
            if each.c is not None and each.c != c:
                problem = f"its calibration is of the model at C = {each.c:.6g}, not of that at C = {c:.6g}"
                raise RunError(f"{self.path}: {problem}; name that C")
        return found

    def at(self, c: float | None, listen: Listener = silent) -> S:
        """Return the step with this C, or the best one.

        A C as tables and lists show it, in four digits or six, is that of the step shown so. Any other between two
        steps, or beyond the last, belongs to the one before, and a note says so.
        """
        if not self.is_finished:
            listen(Note(f"{self.path}: the run is not finished; it has {len(self.steps)} steps so far"))
        if c is None:
            return self.best
        self._check_steps()
        if not (isinstance(c, Real) and math.isfinite(c) and c > 0):
            raise RunError(f"{self.path}: C is a positive finite number, not {c!r}; there are {self._all_c()}")
        meant = [step for step in self.steps if _is_shown_as(step.c, c)]
        if meant:
            return min(meant, key=lambda step: abs(step.c - c))
        below = [step for step in self.steps if step.c <= c]
        if not below:
            raise RunError(f"{self.path}: there is no model for C = {c:g}; the smallest C is {self.steps[0].c:.6g}")
        listen(Note(f"{self.path}: no step has C = {c!r}; the one before it has {below[-1].c:.6g}"))
        return below[-1]

    def plot(self, ax: Any = None) -> Any:
        """Draw the scores over C: their mean, folds, standard errors, and the C that are chosen by them.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        ax : matplotlib.axes.Axes
            RunError if nothing was scored.
        """
        from pipeline.runs.score_curve import plot_curve  # noqa: PLC0415 - which reads runs

        return plot_curve(self, ax)

    def to_frame(self) -> Any:
        """Return a pandas frame, a row a step: C, certificate, scores, rows, and what the step took.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by ``step``. pandas is imported here; MissingError says how to install it.
        """
        return frame_of(self)

    def _repr_html_(self) -> str:
        return html_of(self)

    def __repr__(self) -> str:
        steps = f"{len(self.steps)} step{'' if len(self.steps) == 1 else 's'}"
        return f"<run {self.path}: {steps}{', C = ' + self._all_c() if self.steps else ''}>"

    def _all_c(self) -> str:
        """List the C there are, in a few words."""
        texts = [f"{step.c:.6g}" for step in self.steps]
        if len(texts) > MOST_C_SHOWN:
            texts = [*texts[: MOST_C_SHOWN - 2], "...", f"{texts[-1]} ({len(texts)} in all)"]
        return ", ".join(texts)

    def _check_steps(self) -> None:
        count = len(self.steps)
        if not count:
            raise RunError(f"{self.path}: the run has no finished step; run the same svmsieve path again")
        said = self.header.n_steps if self.header.is_finished else count
        if count != said:
            raise RunError(f"{self.path}: has {count} steps of {said}; run the same svmsieve path again")


@dataclass(frozen=True, repr=False)
class Run(RunOf[StepView]):
    """The run directory of one path; one that is kept in memory has no directory, and ``path`` says so."""

    path: Path
    header: RunHeader
    steps: list[StepView]
    in_memory: bool = False

    def weights(self, top: int = 20, c: float | None = None, listen: Listener = silent) -> TopWeights:
        """Return the largest weights by name, of the best step or of the step at ``c``; a kernel's run has none."""
        from pipeline.runs.weights import check_linear, top_weights  # noqa: PLC0415 - which reads steps

        check_linear(self.spec.kernel, self.path)
        return top_weights(self.at(c, listen), top)

    def kept_by(self, home: object) -> Self:
        """Return it with steps that keep a temporary folder's owner alive."""
        return replace(self, steps=[replace(step, home=home) for step in self.steps])


def _is_shown_as(exact: float, c: float) -> bool:
    return abs(exact - c) <= 1e-12 * c or c in (float(f"{exact:.6g}"), float(f"{exact:.4g}"))


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
    except FileNotFoundError as error:
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
