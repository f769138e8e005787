"""Writing a run directory (see ``directory``), and going on with one that was interrupted.

A step counts when its line and its model are whole; a torn last line or a damaged model sends a continued run back to
the step before. So it is enough to force files to disk now and then: a power cut costs the steps since.

On a path of quick steps and large models writing is a sixth to a third of the time. So a thread writes such a step
while the next one is solved for: its model, then its line, before any of the next one. What it could not write is an
error of whoever waits for it (``settle``), the next step at the latest.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from pipeline.errors import RunError, shown
from pipeline.files import locked, remove_folder, write_json, write_whole
from pipeline.maths.row_sketch import RowSketch
from pipeline.runs.chain import CHAIN, MODEL, foundation, is_chained, link
from pipeline.runs.contract import StepWriter
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import (
    FOLDS,
    HEADER,
    MODELS,
    PARTS,
    SCRATCH,
    SEARCH,
    STEPS,
    io_errors,
    model_name,
    open_run,
    read_header,
    read_steps,
    stored_model,
)
from pipeline.runs.memory import MemoryPlace, MemoryWriter, Place
from pipeline.runs.model_file import SMALL, StoredModel, most_bytes, write_model
from pipeline.runs.records import RunHeader, StepRecord, step_fields
from pipeline.runs.run import Run
from pipeline.runs.sketch_file import SketchRecord, write_sketch
from pipeline.spec import PathSpec

if TYPE_CHECKING:
    from pipeline.runs.classes import ClassesHeader, ClassesRun

R = TypeVar("R", bound="Run | ClassesRun")

SECONDS_BETWEEN_SYNCS = 0.5  # the steps of so long are what a power cut may cost
QUICK = 1.0  # seconds of a step that is written while the next one is solved for: so late may be who listens
LARGE = 1 << 20  # bytes of a model that is: below it two threads wait for each other longer than for the disk


class RunWriter:
    """Appends to a run directory. ``steps`` are the finished ones, those of an earlier attempt included."""

    def __init__(self, folder: Path, header: RunHeader, steps: list[StepRecord]) -> None:
        self.folder, self.header, self.steps = folder, header, steps
        self.stream = (folder / STEPS).open("a", encoding="utf-8")
        self.synced = time.monotonic()
        self.thread = ThreadPoolExecutor(1, "svmsieve-writer")
        self.pending: Future[None] | None = None

    def append(
        self, record: StepRecord, w: np.ndarray, alpha: np.ndarray, verdicts: np.ndarray, w_alpha: np.ndarray | None
    ) -> StepRecord:
        """Write a finished step, now or while the next one is solved for; return it with its number.

        Its arrays are never changed, but for the verdicts, of which the thread has a copy: no more than a model that is
        made in memory, which counts as part of a process.
        """
        self.settle()
        step = replace(record, step=len(self.steps))
        self.steps.append(step)
        is_quick = record.seconds.get("total", 0.0) < QUICK
        if is_quick and most_bytes(w, alpha) >= LARGE and verdicts.nbytes <= SMALL:
            self.pending = self.thread.submit(self._write, step, w, alpha, verdicts.copy(), w_alpha)
        else:
            self._write(step, w, alpha, verdicts, w_alpha)
        return step

    def _write(
        self, step: StepRecord, w: np.ndarray, alpha: np.ndarray, verdicts: np.ndarray, w_alpha: np.ndarray | None
    ) -> None:
        """Write a step: its model first, then its line, which gets its place in the chain."""
        sync = time.monotonic() - self.synced > SECONDS_BETWEEN_SYNCS
        digest = write_model(self.folder / MODELS / model_name(step.step), step.c, w, alpha, verdicts, w_alpha, sync)
        line = step.to_json()
        if self.is_chained:
            line[MODEL] = digest
            line[CHAIN] = link(self._chain_of(step.step), line)
        self.stream.write(json.dumps(line, allow_nan=False) + "\n")
        self.stream.flush()
        if sync:
            os.fsync(self.stream.fileno())
            self.synced = time.monotonic()
        self.steps[step.step] = replace(step, model_digest=line.get(MODEL), chain=line.get(CHAIN))

    @property
    def is_settled(self) -> bool:
        """Whether all steps are on disk, as far as anybody has looked."""
        return self.pending is None

    def settle(self) -> None:
        """Wait until all steps are on disk."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Let the thread end, and close the file; what it could not write no longer matters."""
        self.thread.shutdown()
        self.stream.close()

    @property
    def is_chained(self) -> bool:
        """Whether the run has a chain."""
        return is_chained(self.header.to_json())

    @property
    def chain(self) -> str:
        """The chain so far."""
        self.settle()
        return self._chain_of(len(self.steps))

    def _chain_of(self, n: int) -> str:
        """Return the chain of the first n steps."""
        return (self.steps[n - 1].chain or "") if n else foundation(self.header.to_json())

    def finish(self, **items: Any) -> None:
        """Change run.json for the last time: it names the number of steps and the end of their chain."""
        end = {CHAIN: self.chain} if self.is_chained else {}
        self.update(status="finished", n_steps=len(self.steps), **items, **end)

    def model(self, step: int) -> StoredModel:
        """Return the model of a finished step."""
        self.settle()
        return stored_model(self.folder, self.steps[step].to_json(), self.header)

    def update(self, **items: Any) -> None:
        """Change run.json."""
        self.settle()
        self.header = self.header.changed(**items)
        write_json(self.folder / HEADER, self.header.to_json())

    def keep(self, trained: RowSketch) -> SketchRecord:
        """Write which rows the run is trained on, unless that is there; return what run.json is to say of it."""
        return write_sketch(self.folder, trained)

    def scratch(self) -> Path:
        """Return a folder for temporary files on the same disk."""
        folder = self.folder / SCRATCH
        folder.mkdir(exist_ok=True)
        return folder


@contextmanager
def writing(path: str | Place, spec: PathSpec, data: DataRecord, versions: dict[str, str]) -> Iterator[StepWriter]:
    """Open a run directory, new or to be continued, for the only writer."""
    if isinstance(path, MemoryPlace):
        yield MemoryWriter(path, path.header or RunHeader.in_memory(spec, data, versions))
        return
    folder = Path(path).resolve()
    with io_errors(folder):
        make_run_folder(folder)
        (folder / MODELS).mkdir(exist_ok=True)
    with alone_in(folder):
        header = _matching_header(folder, spec, data, versions)
        _remove_half_written(folder)
        steps = _keep_whole_steps(folder, header)
        writer = RunWriter(folder, header, steps)
        try:
            if header.is_finished and len(steps) < (header.n_steps or 0):
                _expect_same_versions(folder, header, versions)
                writer.update(status="running")  # models were lost since: the missing steps are trained again
            elif header.is_finished and writer.is_chained and header.chain != writer.chain:
                raise RunError(f"{folder}: {HEADER} is not that of {STEPS}; remove {folder} to start afresh")
            yield writer
        finally:
            remove_folder(folder / SCRATCH)
            writer.close()


def rewritten(run: R, **items: Any) -> R:
    """Return a finished run, of any kind, of which something else is said now, and say so in run.json."""
    found: Any = run  # types cannot say that both kinds are alike in this
    header = found.header.changed(**items)
    if found.in_memory:
        steps = [replace(step, header=header) for step in found.steps]
        return cast("R", replace(found, header=header, steps=steps))
    if header != found.header:
        with alone_in(found.path):
            write_json(found.path / HEADER, header.to_json())
    return cast("R", open_run(found.path))


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a run directory's only writer; what cannot be written there is an error of one line."""
    busy = RunError(f"{folder}: another svmsieve is running there; wait for it to finish")
    with io_errors(folder), locked(folder, busy):
        yield


def make_run_folder(folder: Path) -> None:
    """Make the directory, or accept one that is empty, a run, or what is left of one that had hardly begun.

    Steps without a run.json are none of those: nobody knows their settings.
    """
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder}: is a file; choose another --out")
    if folder.is_dir() and not (folder / HEADER).exists():
        half = {entry.name for entry in folder.glob(f"{HEADER}*.tmp")}
        names = (
            {entry.name for entry in folder.iterdir()} - half - {MODELS, FOLDS, SEARCH}
        )  # these may have begun first
        if STEPS in names:
            raise RunError(f"{folder}: has lost its {HEADER}; remove {folder} to start afresh, or choose another --out")
        if names or ((folder / MODELS).exists() and any((folder / MODELS).iterdir())):
            raise RunError(f"{folder}: exists and is not a run; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)


def whole_run(folder: Path) -> Path:
    """Return the run that a fold, a class or a run of a search is part of; what is none of these is a whole."""
    above = [folder, *folder.parents]
    if not folder.name.isdigit() or len(above) < 5:
        return folder
    if above[1].name in (FOLDS, PARTS):
        return whole_run(above[2])
    places = [k for k in (2, 3) if above[k].name == SEARCH]
    return above[places[0] + 1] if places else folder


def _matching_header(folder: Path, spec: PathSpec, data: DataRecord, versions: dict[str, str]) -> RunHeader:
    if not (folder / HEADER).is_file():
        header = RunHeader.begun(spec, data, versions)
        write_json(folder / HEADER, header.to_json())
        return header
    header = read_header(folder)
    expect_same(folder, header, spec, data, versions)
    return header


def expect_same(
    folder: Path, header: RunHeader | ClassesHeader, spec: PathSpec, data: DataRecord, versions: dict[str, str]
) -> None:
    """Raise RunError unless the run that is there is the one that is asked for."""
    afresh = f"remove {whole_run(folder)} to start afresh, or choose another --out"
    if header.data.fingerprint != data.fingerprint:
        raise RunError(f"{folder}: was made from other data ({header.data.path}); {afresh}")
    renamed = _renamed(header.data, data)
    if renamed:
        raise RunError(f"{folder}: was made from the same numbers under other names ({renamed}); {afresh}")
    changed = spec.difference(header.spec)
    if changed:
        raise RunError(f"{folder}: was made with other settings ({changed}); {afresh}")
    for what in ("validation", "reference"):
        if getattr(header.data, what) != getattr(data, what):
            raise RunError(f"{folder}: was made with other {what} data; {afresh}")
    if not header.is_finished:
        _expect_same_versions(folder, header, versions)


def _renamed(then: DataRecord, now: DataRecord) -> str:
    """Say what the same numbers (a fingerprint has nothing else) were called then and are called now; else nothing."""
    if then.bias != now.bias:
        return f"bias {then.bias:g}, now {now.bias:g}"
    sides = {"negative": (then.negative, now.negative), "positive": (then.positive, now.positive)}
    for side, (old, new) in sides.items():
        if old != new:
            return f"{side} label {shown(', '.join(old))}, now {shown(', '.join(new))}"
    if (then.encoding and then.encoding.digest) != (now.encoding and now.encoding.digest):
        return "features were made of its columns in another way"
    pairs = [("class", *both) for both in zip(then.classes, now.classes, strict=False)]
    pairs += [("column", *both) for both in zip(then.columns or (), now.columns or (), strict=False)]  # may have none
    return next((f"{what} {shown(one)}, now {shown(other)}" for what, one, other in pairs if one != other), "")


def changed_versions(header: RunHeader | ClassesHeader, versions: dict[str, str]) -> str:
    """Say which versions that can change a run's bits are others than when it was begun; empty if there are none."""
    then = header.versions
    return ", ".join(
        f"{name} {then.get(name, '?')} (now {now})" for name, now in versions.items() if then.get(name) != now
    )


def _expect_same_versions(folder: Path, header: RunHeader | ClassesHeader, versions: dict[str, str]) -> None:
    other = changed_versions(header, versions)
    if other:
        cure = f"go on with those, remove {folder} to start afresh, or choose another --out"
        raise RunError(f"{folder}: was begun with {other}, and the models of one run have the same bits; {cure}")


def _remove_half_written(folder: Path) -> None:
    for path in (*folder.glob("*.tmp"), *(folder / MODELS).glob("*.tmp")):
        path.unlink()


def _keep_whole_steps(folder: Path, header: RunHeader) -> list[StepRecord]:
    """Return the steps that count and cut the rest off.

    A step counts if its model is whole and, in a run with a chain, both are what was written in this place. Every model
    is read: after a power cut any of those that were not forced to disk may be damaged, not only the last.
    """
    whole, chained = list[dict[str, Any]](), is_chained(header.to_json())
    before = foundation(header.to_json())
    for facts in read_steps(folder, torn=True):
        model = stored_model(folder, facts, header)
        if not (_is_next(model, facts, before) if chained else model.is_whole()):
            break
        whole.append(facts)
        before = facts.get(CHAIN, "")
    text = "".join(json.dumps(facts, allow_nan=False) + "\n" for facts in whole).encode()
    path = folder / STEPS
    if not path.is_file() or path.read_bytes() != text:
        write_whole(path, text)
    return [StepRecord(**step_fields(facts)) for facts in whole]


def _is_next(model: StoredModel, facts: dict[str, Any], before: str) -> bool:
    """Tell whether a line follows the chain before it, and has the model that it says."""
    return facts.get(CHAIN) == link(before, facts) and model.path.is_file() and model.digest() == facts.get(MODEL)
