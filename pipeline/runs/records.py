"""A run's records: a line of steps.jsonl as a ``StepRecord``, run.json as a ``RunHeader``.

Keys on disk are those that other programs rely on; an attribute has the name of its key (but ``model_digest``, which is
``model`` there: a step's ``model`` is the model itself). From version 3 on every key is there, and what is missing is
null; older files leave such keys out. Both are read alike: what is missing is None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field, fields, replace
from typing import Any, Self

from pipeline.dataclass import dataclass
from pipeline.maths.calibration import Calibration
from pipeline.maths.score import Scores
from pipeline.runs.chain import CHAIN, MODEL, SEAL, foundation, sealed
from pipeline.runs.checks import SKETCH, check_header
from pipeline.runs.data_record import DataRecord
from pipeline.runs.held_out import HeldOut
from pipeline.runs.sketch_file import SketchRecord
from pipeline.spec import PathSpec

FORMAT, VERSION = "svmsieve-run", 3
# 2: primal, dual and relative_gap are bounds in exact arithmetic, steps are chained; 3: null for what is missing
READABLE = (1, 2, 3)
CLASSES_FORMAT, CLASSES_READABLE = "svmsieve-classes", (1,)
# What run.json says as it is, null until it is known:
PLAIN = (
    *("c_min", "n_steps", "best_step", "stopped", "peak_memory", "seconds"),
    *("cv_scores", "cv_se", "cv_c", "c_best", "c_1se"),
)
OWN = ("class_weights", "calibration", "held_out", "sketch")  # what only a run of one path says, null until it is known


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What steps.jsonl says of a finished step."""

    step: int = 0
    """The number of the step, from 0; whoever writes the line gives it."""
    c: float
    """The C of the model."""
    c_ref: float
    """The C of the model that the step started from."""
    rule: str
    """The screening rule."""
    solver: str
    """The solver that most rounds were solved by, or "closed form"."""
    n_rows: int
    """How many rows were trained on."""
    screened_zero: int
    """How many rows were proven to have alpha = 0 before the solve."""
    screened_upper: int
    """How many rows were proven to have alpha at its bound before the solve."""
    survivors: int
    """How many rows were left undecided before the solve."""
    rules: dict[str, list[int]] | None = None
    """How many rows each rule that the run's is made of (bt1, bt2) proves ZERO and UPPER; None if it is of none."""
    working_set: int
    """How many rows were solved for, at most, in one round."""
    rounds: int | None = None
    """How often the step solved and certified; 0 for the closed form."""
    passes: float
    """How often the data were read, rows that were gathered counted by their nonzeros."""
    read: float | None = None
    """The share of the data that the last certificate read: 1 if every row; None for a kernel, and in older runs."""
    kernel_values: int | None = None
    """How many kernel values were computed, those of a memo that was lost again; None for a linear model."""
    primal: float
    """The primal value over all rows; from version 2 on an upper bound of it."""
    dual: float
    """The dual value over all rows; from version 2 on a lower bound of it."""
    relative_gap: float
    """(primal - dual)/primal, at most the run's ``tol``."""
    n_free: int
    """How many rows have an alpha strictly inside their box."""
    n_upper: int
    """How many rows have their alpha at its bound."""
    drift: float
    """A bound of how far rounding has moved the stored w_alpha from sum alpha_i z_i."""
    theta: float
    """How wide the band of rows that may move is taken by the next step (see ``Outlook``)."""
    error: float | None
    """How far margins near 1 were, on average, from where the step expected them; None if there were none."""
    scores: Scores | None = None
    """Scores on rows left out of training, or on validation data; None if nothing was scored."""
    reference: dict[str, Any] | None = None
    """What the model of another run that the step started from is worth on these rows: ``relative_gap`` of the pair
    that it makes, ``scores`` on rows left out, None where not known; None if the step started elsewhere."""
    seconds: dict[str, float]
    """What the step took: screen, gather, solve, certify, total."""
    model_digest: str | None = None
    """The SHA-256 of the model file; None in a run without a chain."""
    chain: str | None = None
    """The chain so far (see ``chain``); None in a run without one."""

    def to_json(self) -> dict[str, Any]:
        """Return the line. Without a chain there is no word of it."""
        item = {key: getattr(self, name) for name, key in STEP_KEYS.items()}
        return {name: value for name, value in item.items() if name not in (MODEL, CHAIN) or value is not None}


STEP_KEYS = {each.name: MODEL if each.name == "model_digest" else each.name for each in fields(StepRecord)}


def step_fields(item: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a StepRecord, given a line that has been checked (``checks.check_step``)."""
    return {name: item.get(key) for name, key in STEP_KEYS.items()}


@dataclass(frozen=True, kw_only=True)
class Header(ABC):
    """What run.json says of any run, of one path or of several classes."""

    version: int
    """The version of the run directory's format."""
    status: str
    """``running`` or ``finished``."""
    spec: PathSpec
    """The settings."""
    data: DataRecord
    """The data, with the names of the classes where there are several."""
    versions: dict[str, str]
    """The versions that can change a run's bits, by package."""
    c_min: float | None
    """C_min, of several classes the smallest; None if it is not known, or if the rows sum to zero and there is none."""
    n_steps: int | None
    """How many steps (values of C) a finished run has."""
    best_step: int | None
    """The number of the step with the best score in a finished run; None if nothing was scored."""
    stopped: str | None
    """Why a finished run ended before the last C that was asked for: ``patience``, or None if it did not."""
    cv_scores: list[Scores] | None
    """The mean scores of the folds by step (of a tuned run by ``cv_c``), once all folds are finished."""
    cv_se: list[Scores] | None
    """The standard errors of these means; None in runs of before they were kept."""
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
    """The end of the chain of steps, or of classes; None in a run without one."""
    seal: str | None
    """The seal of run.json; None in runs of before it was sealed."""
    _item: dict[str, Any] = field(repr=False, compare=False)

    @classmethod
    @abstractmethod
    def from_json(cls, item: dict[str, Any]) -> Self:
        """Read run.json."""

    @classmethod
    def _new(cls, head: dict[str, Any], spec: PathSpec, data: DataRecord, versions: dict[str, str]) -> Self:
        """Return that of a run that begins now; what ``head`` does not say is null until it is known."""
        item = head | {"status": "running", "spec": spec.to_json(), "data": data.to_json(), "versions": versions}
        item = item | dict.fromkeys(name for name in PLAIN if name not in item)
        return cls.from_json(sealed(item | {CHAIN: foundation(item)}))

    @staticmethod
    def _read(item: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that all runs have, of an object that has been checked."""
        return {name: item.get(name) for name in (*PLAIN, CHAIN, SEAL)} | {
            "version": item["version"],
            "status": item["status"],
            "spec": PathSpec.from_json(item["spec"]),
            "data": DataRecord.from_json(item["data"]),
            "versions": item.get("versions") or {},
            "_item": item,
        }

    def to_json(self) -> dict[str, Any]:
        """Return run.json as it is on disk, to the key: chain and seal stand on that."""
        return dict(self._item)

    def changed(self, **items: Any) -> Self:
        """Return it with some keys changed, and sealed again."""
        return self.from_json(sealed(self._item | items))

    @property
    def is_finished(self) -> bool:
        """Whether all steps are there; folds may still be missing."""
        return self.status == "finished"


@dataclass(frozen=True, kw_only=True)
class RunHeader(Header):
    """What run.json says of the run of one path."""

    class_weights: tuple[float, float] | None
    """What the costs of negative and positive rows were multiplied by; None if that is not known yet."""
    calibration: Calibration | None
    """What makes probabilities of the scores of one of its models; None if nothing was calibrated."""
    held_out: HeldOut | None
    """Scores of the chosen model on rows left out; None if there are none, and in older runs."""
    sketch: SketchRecord | None
    """The file that tells which rows were trained on; None in runs of before it was kept, and in runs within a run."""

    @classmethod
    def begun(cls, spec: PathSpec, data: DataRecord, versions: dict[str, str]) -> RunHeader:
        """Return that of a run that begins now."""
        own = dict.fromkeys(OWN)
        return cls._new({"format": FORMAT, "version": VERSION} | own, spec, data, versions)

    @classmethod
    def in_memory(cls, spec: PathSpec, data: DataRecord, versions: dict[str, str]) -> RunHeader:
        """Return that of a run in memory that begins now: nothing is read back, so nothing is checked or sealed."""
        unknown: dict[str, Any] = dict.fromkeys((*PLAIN, *OWN, CHAIN, SEAL))
        known: dict[str, Any] = {"version": VERSION, "status": "running", "versions": versions}
        item = {"format": FORMAT, **unknown, **known, "spec": spec.to_json(), "data": data.to_json()}
        return cls(**known, **unknown, spec=spec, data=data, _item=item)

    def updated(self, **items: Any) -> RunHeader:
        """Return it with some fields changed, as they are, and not sealed."""
        return replace(self, **items, _item=self._item | items)

    @classmethod
    def from_json(cls, item: dict[str, Any]) -> Self:
        """Read run.json, of any version that is READABLE; raise ValueError or LookupError if it is damaged."""
        check_header(item)
        weights, calibration, sketch = (item.get(name) for name in ("class_weights", "calibration", "sketch"))
        return cls(
            class_weights=None if weights is None else (weights[0], weights[1]),
            calibration=None if calibration is None else Calibration.from_json(calibration),
            held_out=None if item.get("held_out") is None else HeldOut.from_json(item["held_out"]),
            sketch=None if sketch is None else SketchRecord(**{name: sketch[name] for name in SKETCH}),
            **cls._read(item),
        )
