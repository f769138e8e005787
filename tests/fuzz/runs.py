"""Run directories with other settings, lines and models than those that were written: used, verified, continued."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.engine.engine import Engine
from pipeline.events import silent
from pipeline.path.fit import fit_path
from pipeline.path.train import train_run
from pipeline.runs.classes import ClassesRun
from pipeline.runs.directory import HEADER, STEPS, open_run
from pipeline.runs.sketch_file import SKETCH_FILE
from pipeline.scoring.models import any_model_of
from pipeline.scoring.seen import watch_for
from pipeline.use.export import export
from pipeline.use.export_kernel import KERNEL_WRITERS
from pipeline.use.export_linear import LINEAR_WRITERS
from pipeline.use.predict import predict
from pipeline.verify.classes import verify_any
from tests.fuzz.judge import Target, WrongError
from tests.fuzz.mutate import flipped, mutated, mutated_json
from tests.fuzz.npz import lying, saved, with_a_header
from tests.fuzz.svmlight import noisy_rows

GRID = (0.01, 0.1, 1.0)
SETTINGS: dict[str, Any] = {"grid": GRID, "tol": 1e-6, "holdout": 0.2, "memory": 10**9}
CERTIFIED = ("c", "primal", "dual", "relative_gap", "n_rows", "n_free", "n_upper")
NEARLY = 1e-6  # what verify grants to rounding, and more


class Runs(Target):
    """A run of three steps on a shard, with rows held out."""

    name = "runs"
    settings, writers = SETTINGS, tuple(LINEAR_WRITERS)
    targets: tuple[str, ...] = (HEADER, STEPS, SKETCH_FILE, "models/000001.npz", "models/000002.npz")
    rows = staticmethod(noisy_rows)

    def prepare(self, folder: Path) -> None:
        """Train."""
        source = folder / "rows.svm"
        source.write_text(self.rows(Random(self.name), 40))
        ingest([str(source)], folder / "shards", IngestSpec(workers=1))
        self.data = open_shards(folder / "shards")
        run = fit_path(self.data, out=folder / "run", scheduler="inline", **self.settings)
        paths = [path for path in (folder / "run").rglob("*") if path.is_file()]
        self.files = {str(path.relative_to(run.path)): path.read_bytes() for path in sorted(paths)}
        (sketch,) = [content for name, content in self.files.items() if name.endswith(SKETCH_FILE)]
        first = run.runs[0] if isinstance(run, ClassesRun) else run
        self.trained = np.frombuffer(sketch, "<u8")[-first.header.sketch.count :]
        self.spec, self.steps, self.models = run.spec, [step.to_json() for step in run.steps], _models(run)
        with Engine("inline") as engine:
            verify_any(engine, run.path, self.data)
        for kind in self.writers:
            export(any_model_of(run, 1.0), folder / "exported", kind)

    def attempt(self, chance: Random, folder: Path) -> None:
        """Change a file, and use, verify or continue the run."""
        name = chance.choice(self.targets)
        content, bytes_only = self._changed(chance, name)
        out = folder / "run"
        for each, whole in self.files.items():
            (out / each).parent.mkdir(parents=True, exist_ok=True)
            (out / each).write_bytes(content if each == name else whole)
        action = chance.random()
        if action < 0.85:
            self._use(chance, out, folder / "exported", same=bytes_only)
        elif action < 0.97:
            self._verify(out)
        else:
            with Engine("inline") as engine:
                run = train_run(engine, self.data, self.spec, out)
            if bytes_only:
                self._expect_models(run, "a continued run ends with other models")

    def _changed(self, chance: Random, name: str) -> tuple[bytes, bool]:
        """Return another content of a file, and whether it is binary, and only bytes of it changed."""
        content = self.files[name]
        if name.endswith(HEADER):
            return mutated_json(chance, json.loads(content)), False
        if name.endswith(STEPS):
            return other_lines(chance, content), False
        kind = chance.random()
        if kind < 0.6 or name.endswith(SKETCH_FILE):
            return flipped(chance, content) if kind < 0.4 else mutated(chance, content), True
        with np.load(io.BytesIO(content)) as stored:
            arrays = dict(stored)
        return saved(chance, lying(chance, arrays)) if kind < 0.8 else with_a_header(chance, arrays), False

    def _use(self, chance: Random, out: Path, exported: Path, same: bool) -> None:
        run = open_run(out)
        c = chance.choice((None, *GRID))
        model = any_model_of(run, c)
        step = run.at(c)
        for vector in (step.model.w(), step.alpha, step.verdicts):
            if vector.ndim != 1 or not np.isfinite(vector).all():
                raise WrongError("a vector of a model is not finite", str(vector)[:100])
        if same and not all(map(np.array_equal, (step.model.w(), step.alpha), self.models[step.step])):
            raise WrongError("a damaged model was used")
        with Engine("inline") as engine:
            for part in predict(engine, model, self.data):
                if not np.isfinite(part.score).all():
                    raise WrongError("a score is not finite")
        watch = watch_for(run, silent)
        if watch is not None and not np.array_equal(watch.sketch.hashes, self.trained):
            raise WrongError("a damaged sketch of the rows that were trained on was used")
        if run.spec.kernel == "linear":
            run.weights(3, c)
        export(model, exported, chance.choice(self.writers))

    def _verify(self, out: Path) -> None:
        with Engine("inline") as engine:
            found = verify_any(engine, out, self.data)
        if not all(finding.holds for finding in found):
            return
        run = open_run(out)
        if len(run.steps) != len(self.steps):
            raise WrongError("a run with missing steps verifies", f"{len(run.steps)} steps")
        for step, facts in zip(run.steps, self.steps, strict=True):
            now = step.to_json()
            for name in CERTIFIED:
                if not abs(now[name] - facts[name]) <= NEARLY * abs(facts[name]) + NEARLY:
                    raise WrongError(f"a run with another {name} verifies", f"{now[name]!r}, was {facts[name]!r}")
            if step.scores != facts["scores"]:
                raise WrongError("a run with other scores verifies", str(step.scores))
        self._expect_models(run, "a run with other models verifies", NEARLY)

    def _expect_models(self, run: Any, kind: str, tolerance: float = 0.0) -> None:
        found = _models(run)
        if len(found) != len(self.models):
            raise WrongError(kind, f"{len(found)} steps")
        for number, (vectors, wanted) in enumerate(zip(found, self.models, strict=True)):
            for a, b in zip(vectors, wanted, strict=True):
                if a.shape != b.shape or not np.allclose(a, b, rtol=tolerance, atol=tolerance):
                    raise WrongError(kind, f"step {number}")


class KernelRuns(Runs):
    """The same with a kernel: models are alpha, and verified by kernel values."""

    name = "kernel-runs"
    settings, writers = SETTINGS | {"kernel": "rbf", "gamma": 0.5, "tol": 1e-5}, tuple(KERNEL_WRITERS)


class ClassRuns(Runs):
    """The same of several classes: run.json above, and the run of each class."""

    name = "class-runs"
    writers = tuple(LINEAR_WRITERS)
    targets = (HEADER, HEADER, f"classes/1/{HEADER}", f"classes/0/{STEPS}", "classes/2/models/000001.npz")

    @staticmethod
    def rows(chance: Random, n: int) -> str:
        """Write rows of three classes."""
        lines = noisy_rows(chance, n).splitlines(keepends=True)
        return "".join(f"2 {line.partition(' ')[2]}" if k % 3 == 0 else line for k, line in enumerate(lines))

    def _use(self, chance: Random, out: Path, exported: Path, same: bool) -> None:
        run = open_run(out)
        c = chance.choice((None, *GRID))
        model, step = any_model_of(run, c), run.at(c)
        vectors = [vector for part in step.parts for vector in (part.model.w(), part.alpha)]
        if not all(np.isfinite(vector).all() for vector in vectors):
            raise WrongError("a vector of a model is not finite")
        if same and not all(map(np.array_equal, vectors, self.models[step.step])):
            raise WrongError("a damaged model was used")
        with Engine("inline") as engine:
            for part in predict(engine, model, self.data):
                if not np.isfinite(part.scores).all() or part.scores.shape[1] != 3:
                    raise WrongError("scores are not finite")
        run.weights(3, c)
        export(model, exported, chance.choice(self.writers))

    def _verify(self, out: Path) -> None:
        with Engine("inline") as engine:
            found = verify_any(engine, out, self.data)
        if not all(finding.holds for finding in found):
            return
        run = open_run(out)
        if run.is_finished and [step.scores for step in run.steps] != [facts["scores"] for facts in self.steps]:
            raise WrongError("a run with other scores verifies")
        if run.is_finished:
            self._expect_models(run, "a run with other models verifies", NEARLY)


def _models(run: Any) -> list[tuple[np.ndarray, ...]]:
    if isinstance(run, ClassesRun):
        return [tuple(v for part in step.parts for v in (part.model.w(), part.alpha)) for step in run.steps]
    return [(step.model.w(), step.alpha, step.verdicts) for step in run.steps]


def other_lines(chance: Random, content: bytes) -> bytes:
    """Change, drop, repeat or swap lines of steps.jsonl."""
    lines = content.splitlines()
    at, kind = chance.randrange(len(lines)), chance.random()
    if kind < 0.7:
        lines[at] = mutated_json(chance, json.loads(lines[at])).replace(b"\n", b" ")
    elif kind < 0.8:
        del lines[at]
    elif kind < 0.85:
        lines.insert(at, lines[at])
    elif kind < 0.9:
        chance.shuffle(lines)
    else:
        return mutated(chance, content)
    return b"\n".join(lines) + (b"\n" if chance.random() < 0.9 else b"")
