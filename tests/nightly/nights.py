"""A nightly job in a temporary folder: files that arrive, the job that takes them, and all that it leaves behind."""

from __future__ import annotations

import json
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.shards.manifest import read_manifest
from pipeline.engine.engine import Engine
from pipeline.errors import SieveError
from pipeline.nightly import tonight
from pipeline.nightly.job import read_job
from pipeline.nightly.night import run_nightly
from pipeline.nightly.yesterday import yesterday_of
from pipeline.runs.directory import open_run
from pipeline.verify.classes import verify_any

FIRST = date(2026, 3, 1)
FEATURES = 8
SETTINGS = """\
inputs: incoming
store: store
reading: {features: 8}
window: 10
holdout: 0.2
gate: accuracy >= yesterday - 0.2
train: {tol: 1e-5, memory: 1GB, epsilon: 0.1, c_max: 10}
keep: {runs: 2}
scheduler: inline
"""
COSTS = {"seconds", "passes", "ended"}


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


def rows(seed: int, count: int = 40) -> str:
    """Rows as svmlight text; the label is a noisy linear function of the features."""
    rng = np.random.default_rng(seed % 1000)
    x = np.round(rng.standard_normal((count, FEATURES)), 3)
    y = np.where(x @ np.linspace(-1, 1, FEATURES) + 0.4 * rng.standard_normal(count) > 0, 1, -1)
    lines = (" ".join(f"{k + 1}:{value}" for k, value in enumerate(row)) for row in x)
    return "".join(f"{label} {line}\n" for label, line in zip(y, lines, strict=True))


class Nightly:
    """The folder of a job."""

    def __init__(self, folder: Path, settings: str = SETTINGS) -> None:
        self.folder, self.job, self.store = folder, folder / "job.yaml", folder / "store"
        (folder / "incoming").mkdir(parents=True, exist_ok=True)
        self.job.write_text(settings)

    def arrive(self, number: int, text: str | None = None, name: str = "") -> Path:
        """Let the file of a day arrive."""
        path = self.folder / "incoming" / (name or f"rows-{day(number)}.svm")
        path.write_text(rows(number) if text is None else text)
        return path

    def run(self, number: int, **options: Any) -> list[dict[str, Any]]:
        """Run as of a day."""
        return [night.to_json() for night in run_nightly(read_job(self.job), day(number), **options)]

    def night(self, number: int) -> dict[str, Any]:
        """Run as of a day; there is one night to do."""
        (line,) = self.run(number)
        return line

    def failed(self, number: int) -> dict[str, Any]:
        """Run as of a day; the night fails, and its line says so."""
        with pytest.raises(SieveError) as raised:
            self.run(number)
        line = self.history()[-1]
        assert (line["status"], line["error"]) == ("failed", " ".join(str(raised.value).split()))
        assert not (self.store / "night.json").exists()
        return line

    def history(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.store / "history.jsonl").read_text().splitlines()]

    def current(self) -> str:
        return (self.store / "current").readlink().name

    def contents(self) -> dict[str, Any]:
        """All that the store says, but for time and what was read twice."""
        found: dict[str, Any] = {"links": self.current() if (self.store / "current").is_symlink() else None}
        for path in sorted(self.store.rglob("*")):
            name = str(path.relative_to(self.store))
            if path.is_symlink() or not path.is_file() or name.startswith(("current", "metrics")):
                continue
            if path.name == "manifest.json":
                found[name] = [(shard.name, shard.digest) for shard in read_manifest(path.parent).shards]
            elif path.suffix == ".md":
                found[name] = path.read_text().partition("Seconds:")[0]
            elif path.suffix in (".json", ".jsonl") and path.name != "files.json":
                texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
                found[name] = [_without(json.loads(text), COSTS | {"peak_memory"}) for text in texts]
            elif path.suffix == ".arrow":
                found[name] = path.stat().st_size
            else:
                found[name] = path.read_bytes()
        return found


def _without(item: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}


def after_first_night(made: Nightly) -> Nightly:
    """The job after its first night."""
    made.arrive(0)
    assert made.night(0)["status"] == "published"
    return made


def copied(nightly: Nightly, folder: Path) -> Nightly:
    """The same job in another folder: a first night takes a second, a copy of one nothing."""
    shutil.copytree(nightly.folder, folder, symlinks=True)
    ledger = folder / "store" / "files.json"
    ledger.write_text(ledger.read_text().replace(str(nightly.folder), str(folder)))
    return type(nightly)(folder)


def holds(nightly: Nightly) -> bool:
    """Verify all certificates of the current run on the data as they are."""
    with Engine("inline") as engine:
        found = verify_any(engine, nightly.store / "current", open_shards(nightly.store / "shards"))
    return all(finding.holds for finding in found)


def expect_yesterday_found_by_training(nightly: Nightly, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next night says of yesterday's model what screening for it finds, and screens nothing for it."""
    before = open_run(nightly.store / "current").best
    nightly.arrive(1)
    with monkeypatch.context() as patch:
        patch.delattr(tonight, "yesterday_of")
        line = nightly.night(1)
    with Engine("inline") as engine:
        spec = open_run(nightly.store / "current").spec
        found = yesterday_of(engine, open_shards(nightly.store / "shards"), before, spec)
    assert line["settled"] == pytest.approx(found.settled)
    assert line["reference_gap"] == pytest.approx(found.relative_gap)
    assert line["yesterday"] == found.scores
