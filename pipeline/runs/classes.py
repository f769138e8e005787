"""RUN of K classes: what training them, one against the rest, leaves on disk, as a reader finds it.

run.json        settings, data fingerprint, versions, status, scores of all classes together, the best step; sealed
classes/k       the run of class k against the rest, a run directory as any other of two classes

All classes have the same C. The chain in run.json (see ``chain``) stands on settings, data and versions, and goes on
with the seal of each class's run: none can be changed, replaced or moved without a trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import RunError
from pipeline.runs.chain import CHAIN, SEAL, foundation, link, sealed
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import HEADER, PARTS, Run, RunOf, StepView, open_path, read_item
from pipeline.runs.records import CLASSES_FORMAT, CLASSES_READABLE, Scores
from pipeline.spec import PathSpec

_LATER = ("c_min", "class_weights", "n_steps", "scores", "best_step", "stopped")
_TUNED = ("cv_scores", "cv_se", "cv_c", "c_best", "c_1se")
_SPENT = ("peak_memory", "seconds")


@dataclass(frozen=True, kw_only=True)
class ClassesHeader:
    """What run.json says of a run of several classes."""

    version: int
    """The version of the run directory's format."""
    status: str
    """``running`` or ``finished``."""
    spec: PathSpec
    """The settings."""
    data: DataRecord
    """The data, with the names of the classes."""
    versions: dict[str, str]
    """The versions that can change a run's bits, by package."""
    c_min: float | None
    """The smallest C_min of all classes, where C are given in multiples of it; else None."""
    class_weights: tuple[float, ...] | None
    """What the costs of each class's rows were multiplied by; None if by nothing, or if that is not known yet."""
    n_steps: int | None
    """How many C a finished run has."""
    scores: list[Scores] | None
    """The scores of all classes together by step; None if nothing was scored."""
    best_step: int | None
    """The number of the step with the best score in a finished run; None if nothing was scored."""
    stopped: str | None
    """Why a finished run ended before the last C that was asked for: ``patience``, or None if it did not."""
    cv_scores: list[Scores] | None
    """The mean scores of the folds by step (of a tuned run by ``cv_c``), once all folds are finished."""
    cv_se: list[Scores] | None
    """The standard errors of these means."""
    cv_c: list[float] | None
    """The C that a tuned run was chosen from; None in any other."""
    c_best: float | None
    """The C with the best mean score."""
    c_1se: float | None
    """The smallest C whose mean score is within one standard error of the best."""
    peak_memory: int | None
    """The most memory that a finished run held, in bytes."""
    seconds: float | None
    """What a finished run took."""
    chain: str | None
    """The end of the chain of its classes."""
    seal: str | None
    """The seal of run.json."""
    _item: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    def begun(cls, spec: PathSpec, data: DataRecord, versions: dict[str, str]) -> ClassesHeader:
        """Return that of a run that begins now."""
        item: dict[str, Any] = {"format": CLASSES_FORMAT, "version": CLASSES_READABLE[-1], "status": "running"}
        item |= {"classes": list(data.classes), "spec": spec.to_json(), "data": data.to_json(), "versions": versions}
        item |= dict.fromkeys((*_LATER, *_TUNED, *_SPENT))
        return cls.from_json(sealed(item | {CHAIN: foundation(item)}))

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> ClassesHeader:
        """Read what has been checked (``checks.check_classes``)."""
        weights, names = item.get("class_weights"), ("n_steps", "scores", "best_step", "stopped", "c_min")
        return cls(
            version=item["version"],
            status=item["status"],
            spec=PathSpec.from_json(item["spec"]),
            data=DataRecord.from_json(item["data"]),
            versions=item.get("versions") or {},
            class_weights=None if weights is None else tuple(weights),
            **{name: item.get(name) for name in (*names, *_TUNED, *_SPENT, CHAIN, SEAL)},
            _item=item,
        )

    def to_json(self) -> dict[str, Any]:
        """Return run.json as it is on disk, to the key: chain and seal stand on that."""
        return dict(self._item)

    def changed(self, **items: Any) -> ClassesHeader:
        """Return it with some keys changed, and sealed again."""
        return self.from_json(sealed(self._item | items))

    @property
    def is_finished(self) -> bool:
        """Whether all steps of all classes are there; folds may still be missing."""
        return self.status == "finished"


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


@dataclass(frozen=True)
class ClassesRun(RunOf[ClassesStep]):
    """The run directory of several classes; while it is not finished, a step is there once all classes have it."""

    path: Path
    header: ClassesHeader
    steps: list[ClassesStep]
    runs: tuple[Run, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; the k-th is that of ``runs[k]``."""
        return self.header.data.classes

    def kept_by(self, home: object) -> ClassesRun:
        """Return it with steps that keep a temporary folder's owner alive."""
        runs = tuple(run.kept_by(home) for run in self.runs)
        return replace(self, runs=runs, steps=_steps(self.header, runs, self.path))


def open_classes(folder: Path) -> ClassesRun:
    """Read the run directory of several classes; what is not one is an error of one line."""
    item = read_item(folder)
    if item["format"] != CLASSES_FORMAT:
        raise RunError(f"{folder}: is a run of two classes, and one of several is needed")
    header = ClassesHeader.from_json(item)
    places = [folder / PARTS / str(k) for k in range(len(header.data.classes))]
    begun = [place for place in places if header.is_finished or (place / HEADER).is_file()]
    runs = tuple(open_path(place) for place in begun)
    return ClassesRun(folder, header, _steps(header, runs, folder), runs)


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
