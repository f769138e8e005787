"""What job.yaml says, checked before anything is touched."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from pipeline.data.ingest.ingest import IngestSpec, reading_spec
from pipeline.data.reading.block import LARGEST_FEATURES
from pipeline.data.reading.formats import FORMATS
from pipeline.data.reading.labels import named_classes
from pipeline.data.stores.located import is_url
from pipeline.dataclass import dataclass
from pipeline.errors import JobError, SpecError
from pipeline.maths.score import WHERE_SELECTED
from pipeline.nightly.gate import Gate, read_gate
from pipeline.spec import RULES, SCORES, SOLVERS, PathSpec
from pipeline.yaml_lines import Section, read_yaml
from pipeline.yaml_values import brief, flag, label, number, one_of, size, text, texts, whole


def _labels(value: Any) -> tuple[str, ...]:
    """Read the names of three classes or more."""
    if not isinstance(value, list):
        raise ValueError(f"{brief(value)} is not a list of labels such as [ham, spam, unsure]")
    try:
        return named_classes([label(each) for each in value]).classes
    except SpecError as error:
        raise ValueError(str(error)) from error


READING: dict[str, Callable[[Any], Any]] = {
    "format": one_of(*FORMATS),
    "positive": label,
    "classes": _labels,
    "columns": text,
    "bias": number,
    "features": whole(1, LARGEST_FEATURES),
    "index_base": lambda value: one_of("auto", "0", "1")(str(value)),
    "duplicates": one_of("error", "sum"),
    "label_column": text,
    "weight_column": text,
    "group": text,
    "ignore": texts,
    "rows_per_shard": whole(1),
    "shard_size": size,
    "max_line": size,
}
TRAINING: dict[str, Callable[[Any], Any]] = {
    "c_max": number,
    "epsilon": number,
    "tol": number,
    "rule": one_of(*RULES),
    "solver": one_of(*SOLVERS),
    "patience": whole(1),
    "memory": size,
}
KNOWN = (
    *("inputs", "store", "reading", "window", "train", "holdout", "select", "gate", "keep"),
    *("scheduler", "workers", "solve_on", "expect", "notify", "max_line"),
)
LONGEST_WINDOW = 36_525  # days: a hundred years
MOST_WORKERS = 1 << 16  # a slip of the pen, if more


@dataclass(frozen=True)
class Training:
    """How to train: the whole path, or at C/around, C and C*around for yesterday's best C, none above C_max.

    The first night has no best C: it tries those that ``tune`` tries, until scores get no better.
    """

    around: float
    whole_path: bool
    settings: dict[str, Any]

    def spec(self, c: float | None, memory: int) -> PathSpec:
        """Return the settings of a run; ``c`` is yesterday's, None on the first night."""
        settings = {"memory": memory} | self.settings
        if c is not None and not self.whole_path:
            top = PathSpec(**settings).c_max
            settings["patience"] = 0
            settings["grid"] = tuple(sorted({min(top, c * factor) for factor in (1 / self.around, 1.0, self.around)}))
        return PathSpec(**settings)


@dataclass(frozen=True)
class Expected:
    """What must arrive on a day, in new files and in their rows; with fewer the night fails."""

    files: int = 0
    rows: int = 0

    def missing(self, files: int, rows: int) -> str:
        """Say what is missing; nothing if all is there."""
        for what, came, least in (("files", files, self.files), ("rows", rows, self.rows)):
            if came < least:
                return f"{came:,} {what} arrived, but expect says {least:,}"
        return ""


@dataclass(frozen=True)
class Job:
    """A nightly job. ``window`` is in days; ``keep`` is how many runs besides the current one are kept.

    ``notify`` are the words of a command that is told how a night ended; ``stated`` are the options of reading that
    the file names, and ``selects`` says whether it names the score to choose by.
    """

    source: Path
    inputs: tuple[str, ...]
    store: Path
    reading: IngestSpec
    window: int | None
    training: Training
    gates: tuple[Gate, ...]
    keep: int
    scheduler: str
    workers: int | None
    solve_on: str
    expected: Expected = field(default_factory=Expected)
    notify: tuple[str, ...] = ()
    stated: frozenset[str] = frozenset()
    selects: bool = True

    @property
    def settings(self) -> str:
        """A digest of all that a model depends on besides the data."""
        return _digest([asdict(self.training), [gate.text for gate in self.gates]])

    @property
    def reading_digest(self) -> str:
        """A digest of how files are read: a file that could not be read is tried again when this changes."""
        return _digest(asdict(self.reading))


def read_job(path: str | Path) -> Job:
    """Read and check job.yaml; relative paths in it count from its own folder."""
    top = read_yaml(path, JobError, "deploy/job.yaml is an example")
    top.only(*KNOWN)
    base = Path(path).resolve().parent

    def here(value: str) -> str:
        return value if is_url(value) else str(base / value)

    store = top.take("store", text)
    if is_url(store):
        raise top.error("store", "must be a local directory (inputs may be URLs)")
    training, scored = _training(top)
    gates = top.optional("gate", _gates) or ()
    if not scored:
        raise top.error("holdout", "is above 0: the best C and the gates need rows to score; for example 0.1")
    for gate in gates:
        if gate.score in WHERE_SELECTED and gate.score != training.settings["select"]:
            cure = f"add select: {gate.score}"
            raise top.error("gate", f"{gate.text}: this score is made only if it is selected by; {cure}")
    keep, reading = top.section("keep"), top.section("reading")
    if keep:
        keep.only("runs")
    return Job(
        source=Path(path),
        inputs=tuple(map(here, top.take("inputs", texts))),
        store=Path(here(store)),
        reading=_reading(top, here),
        window=top.optional("window", whole(1, LONGEST_WINDOW)),
        training=training,
        gates=gates,
        keep=keep.take("runs", whole(0), 7) if keep else 7,
        scheduler=top.take("scheduler", text, "threads"),
        workers=top.optional("workers", whole(1, MOST_WORKERS)),
        solve_on=top.take("solve_on", one_of("client", "worker"), "client"),
        expected=_expected(top.section("expect")),
        notify=top.optional("notify", _words) or (),
        stated=frozenset(reading.items if reading else ()),
        selects="select" in top.items,
    )


def _reading(top: Section, here: Callable[[str], str]) -> IngestSpec:
    """Return how files are read; the limit of a line may stand beside the other limits or among the options."""
    section = top.section("reading")
    given: dict[str, Any] = {}
    if section:
        section.only(*READING)
        given = {name: section.take(name, READING[name]) for name in section.items}
    if "max_line" in top.items:
        if "max_line" in given:
            raise top.error("max_line", "stands in reading, too; leave one out")
        given["max_line"] = top.take("max_line", size)
    if section and given.get("columns", "auto") not in ("auto", "none"):
        given["columns"] = here(given["columns"])
    if "classes" in given and "positive" in given:
        raise (section or top).error("classes", "and positive exclude each other; leave one out")
    try:
        return reading_spec(**given)
    except SpecError as error:
        raise (section or top).error("columns", str(error)) from error


def _training(top: Section) -> tuple[Training, bool]:
    """Return how to train, and whether rows are held out."""
    section = top.section("train")
    settings: dict[str, Any] = {}
    around, whole_path = 2.0, False
    if section:
        section.only("around", "path", "class_weight", *TRAINING)
        settings = {name: section.take(name, TRAINING[name]) for name in section.items if name in TRAINING}
        if "class_weight" in section.items:
            settings["class_weight"] = section.take("class_weight", _class_weight)
        whole_path = section.take("path", flag, False)
        around = section.take("around", number, 2.0)
        if whole_path and "around" in section.items:
            raise section.error("around", "path and around exclude each other; leave one out")
        if around < 1:
            raise section.error("around", f"is a ratio from 1 on, not {around:g}")
    settings["holdout"] = top.take("holdout", number, 0.1)
    settings["select"] = top.take("select", one_of(*SCORES), "accuracy")
    try:
        PathSpec(**settings)
    except SpecError as error:
        name = next((name for name in settings if str(error).startswith(name)), "")
        where = section if section and name in section.items else top
        raise where.error(name or "train", str(error).removeprefix(f"{name} ")) from error
    return Training(around, whole_path, settings), settings["holdout"] > 0


def _expected(section: Section | None) -> Expected:
    if section is None:
        return Expected()
    section.only("files", "rows")
    return Expected(**{name: section.take(name, whole(0)) for name in section.items})


def _words(value: Any) -> tuple[str, ...]:
    """Read a command: a text that is split as a shell splits it, or a list of its words."""
    words = texts(value) if isinstance(value, list) else tuple(shlex.split(text(value)))
    if not words:
        raise ValueError("the command is empty")
    return words


def _class_weight(value: Any) -> Any:
    if value == "balanced":
        return value
    if isinstance(value, dict) and value:
        return {label(name): number(weight) for name, weight in value.items()}
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{brief(value)} is neither balanced nor a pair [NEGATIVE, POSITIVE] nor weights by label")
    return tuple(map(number, value))


def _gates(value: Any) -> tuple[Gate, ...]:
    return tuple(read_gate(item) for item in (value if isinstance(value, list) else [value]))


def _digest(item: Any) -> str:
    return hashlib.sha256(json.dumps(item, sort_keys=True, default=str).encode()).hexdigest()[:16]
