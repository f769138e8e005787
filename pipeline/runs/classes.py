"""RUN of K classes: what training them, one against the rest, leaves on disk, as a reader finds it.

run.json        settings, data fingerprint, versions, status, scores of all classes together, the best step; sealed
classes/k       the run of class k against the rest, a run directory as any other of two classes

All classes have the same C. The chain in run.json (see ``chain``) stands on settings, data and versions, and goes on
with the seal of each class's run: none can be changed, replaced or moved without a trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipeline.data.reading.labels import label_text
from pipeline.data.reading.layout import listed
from pipeline.dataclass import dataclass
from pipeline.errors import RunError
from pipeline.events import Listener, silent
from pipeline.maths.calibration import Calibration
from pipeline.maths.score import Scores
from pipeline.runs.chain import SEAL, foundation, link
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import HEADER, PARTS, open_path, read_item
from pipeline.runs.held_out import ClassesHeldOut
from pipeline.runs.memory import MemoryPlace, Place
from pipeline.runs.records import CLASSES_FORMAT, CLASSES_READABLE, Header
from pipeline.runs.run import Run, RunOf, StepView
from pipeline.runs.weights import TopWeights, check_linear, top_weights
from pipeline.spec import PathSpec


@dataclass(frozen=True, kw_only=True)
class ClassesHeader(Header):
    """What run.json says of a run of several classes."""

    class_weights: tuple[float, ...] | None
    """What the costs of each class's rows were multiplied by; None if by nothing, or if that is not known yet."""
    scores: list[Scores] | None
    """The scores of all classes together by step; None if nothing was scored."""
    calibration: tuple[Calibration, ...] | None
    """What makes probabilities of the scores of each class; None if nothing was calibrated."""
    held_out: ClassesHeldOut | None
    """What the chosen models call rows left out; None if there are none, and in older runs."""

    @classmethod
    def begun(cls, spec: PathSpec, data: DataRecord, versions: dict[str, str]) -> ClassesHeader:
        """Return that of a run that begins now."""
        head = {"format": CLASSES_FORMAT, "version": CLASSES_READABLE[-1], "classes": list(data.classes)}
        return cls._new(
            head | dict.fromkeys(("class_weights", "scores", "calibration", "held_out")), spec, data, versions
        )

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> Self:
        """Read what has been checked (``checks.check_classes``)."""
        weights, calibration, held_out = (item.get(name) for name in ("class_weights", "calibration", "held_out"))
        return cls(
            class_weights=None if weights is None else tuple(weights),
            scores=item.get("scores"),
            calibration=None if calibration is None else tuple(map(Calibration.from_json, calibration)),
            held_out=None if held_out is None else ClassesHeldOut.from_json(held_out, len(item["classes"])),
            **cls._read(item),
        )


def chain_of(header: dict[str, Any], seals: Iterable[str | None]) -> str:
    """Return the chain of a run whose classes' runs have these seals."""
    found = foundation(header)
    for k, seal in enumerate(seals):
        found = link(found, {"class": k, SEAL: seal})
    return found


@dataclass(frozen=True, eq=False, repr=False)
class ClassesStep:
    """One C: a step of every class against the rest."""

    step: int
    """The number of the step, from 0."""
    c: float
    """The C of all models."""
    scores: Scores | None
    """The scores of all classes together; None if nothing was scored."""
    parts: tuple[StepView, ...]
    """The steps of the classes, by code."""
    header: ClassesHeader
    """What run.json says of the run."""

    @property
    def spec(self) -> PathSpec:
        """The run's settings."""
        return self.header.spec

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.header.data.classes

    @property
    def relative_gap(self) -> float:
        """The largest relative gap of the classes."""
        return max(part.relative_gap for part in self.parts)

    @property
    def n_free(self) -> int:
        """How many alphas are strictly inside their box, in all classes."""
        return sum(part.n_free for part in self.parts)

    @property
    def passes(self) -> float:
        """How often the data were read for the steps of all classes, each counted as if it were alone."""
        return sum(part.passes for part in self.parts)

    @property
    def w(self) -> np.ndarray:
        """The weights, dense: a row a class."""
        return np.stack([part.w for part in self.parts])

    def to_json(self) -> dict[str, Any]:
        """Return what there is to say of it."""
        names = ("step", "c", "relative_gap", "n_free", "passes", "scores")
        return {name: getattr(self, name) for name in names} | {"classes": [part.to_json() for part in self.parts]}

    def __repr__(self) -> str:
        return f"<step {self.step}: C = {self.c:g}, {len(self.parts)} classes, relative gap {self.relative_gap:.1e}>"


@dataclass(frozen=True, repr=False)
class ClassesRun(RunOf[ClassesStep]):
    """The run directory of several classes; while it is not finished, a step is there once all classes have it.

    One that is kept in memory has no directory, and ``path`` says so.
    """

    path: Path
    header: ClassesHeader
    steps: list[ClassesStep]
    runs: tuple[Run, ...]
    in_memory: bool = False

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; the k-th is that of ``runs[k]``."""
        return self.header.data.classes

    def weights(
        self, top: int = 20, c: float | None = None, only: str | None = None, listen: Listener = silent
    ) -> dict[str, TopWeights]:
        """Return the largest weights by name, of every class or of ``only`` one, each against the rest."""
        check_linear(self.spec.kernel, self.path)
        if only is not None and label_text(only) not in self.classes:
            raise RunError(f"{self.path}: has no class {only}; there are {listed(list(self.classes))}")
        wanted = self.classes if only is None else (label_text(only),)
        parts = zip(self.classes, self.at(c, listen).parts, strict=True)
        return {name: top_weights(part, top) for name, part in parts if name in wanted}

    def kept_by(self, home: object) -> Self:
        """Return it with steps that keep a temporary folder's owner alive."""
        runs = tuple(run.kept_by(home) for run in self.runs)
        return replace(self, runs=runs, steps=_steps(self.header, runs, self.path))


AnyRun = Run | ClassesRun
AnyStep = StepView | ClassesStep


def parts_of(step: AnyStep) -> tuple[StepView, ...]:
    """Return the step of every class, or the one there is."""
    return step.parts if isinstance(step, ClassesStep) else (step,)


def open_classes(folder: Place) -> ClassesRun:
    """Read the run directory of several classes; what is not one is an error of one line."""
    if isinstance(folder, MemoryPlace):
        kept = tuple(open_path(folder / PARTS / str(k)) for k in range(len(folder.header.data.classes)))
        return ClassesRun(folder.path, folder.header, _steps(folder.header, kept, folder.path), kept, True)
    item = read_item(folder)
    if item["format"] != CLASSES_FORMAT:
        raise RunError(f"{folder}: is a run of two classes, and one of several is needed")
    header = ClassesHeader.from_json(item)
    places = [folder / PARTS / str(k) for k in range(len(header.data.classes))]
    begun = [place for place in places if header.is_finished or (place / HEADER).is_file()]
    runs = tuple(open_path(place) for place in begun)
    for run in runs:
        _expect_part(header, int(run.path.name), run)
    return ClassesRun(folder, header, _steps(header, runs, folder), runs)


def _expect_part(header: ClassesHeader, k: int, run: Run) -> None:
    """Raise RunError if the run of class k is not one of these data: models would not stand side by side."""
    ours, theirs = header.data, run.header.data
    same = all(getattr(ours, name) == getattr(theirs, name) for name in ("rows", "features", "bias", "columns"))
    kernels = [(spec.kernel, spec.gamma) for spec in (header.spec, run.spec)]
    if not same or theirs.positive != (ours.classes[k],) or kernels[0] != kernels[1]:
        raise RunError(f"{run.path}: is not the run of class {ours.classes[k]} of the run above it; train again")


def _steps(header: ClassesHeader, runs: Sequence[Run], folder: Path) -> list[ClassesStep]:
    """Return the steps that all classes have."""
    if len(runs) < len(header.data.classes):
        return []
    found = []
    for number, parts in enumerate(zip(*(run.steps for run in runs), strict=False)):
        if len({part.c for part in parts}) > 1:
            raise RunError(f"{folder}: step {number} has other C in one class than in another; train again")
        scores = header.scores[number] if header.scores and number < len(header.scores) else None
        found.append(ClassesStep(number, parts[0].c, scores, parts, header))
    return found
