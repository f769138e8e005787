"""job.yaml with other types, names and nesting, and the files of the store that it owns."""

from __future__ import annotations

import io
import json
import os
import shutil
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import yaml

from pipeline.cli import app
from pipeline.nightly.job import read_job
from pipeline.nightly.night import plan_night, run_nightly
from pipeline.nightly.records import STATUSES
from tests.fuzz.judge import Target, WrongError
from tests.fuzz.mutate import NUMBERS, mutated, mutated_item, mutated_json
from tests.fuzz.runs import other_lines
from tests.fuzz.svmlight import noisy_rows

TODAY = date(2026, 3, 3)
SETTINGS: dict[str, Any] = {
    "inputs": "incoming",
    "store": "store",
    "reading": {"features": 5, "format": "svmlight", "index_base": 1, "bias": 1.0, "shard_size": "1MB"},
    "window": 10,
    "holdout": 0.2,
    "select": "auc",
    "gate": ["accuracy >= yesterday - 0.5", "auc >= 0.1"],
    "train": {"tol": 1e-4, "memory": "1GB", "epsilon": 0.5, "c_max": 10.0, "class_weight": [1.0, 2.0], "around": 3.0},
    "keep": {"runs": 2},
    "scheduler": "inline",
}
MORE = {"expect": {"files": 1, "rows": 10}, "notify": "true", "max_line": "1MB", "workers": 2, "solve_on": "client"}
TOKENS = tuple(
    token.encode()
    for token in (
        *NUMBERS,
        *("&a ", "*a", "<<: *a", "!!python/object:os.system ", "!!binary ", "!!float ", "!!set ", "!x "),
        *("? ", "- ", ": ", ":"),
        *("{", "}", "[", "]", ",", "|\n", ">\n", "#", "%YAML 9.9\n", "---\n", "...\n", "\t", "\0", "\ufeff"),
        *("'", '"', "@", "`"),
        *("~", "yes", "null", "2026-01-01", "1:30:00", ".inf", ".nan", "0o7", "0b1", "[" * 3000, "- " * 2000, "\\x"),
        *("a: &a [x, x]\n", "&a [*a]", "{? [a]: 1}", "tcp://user:secret@host:1", "s3://bucket/x"),
        *("file:///x", "memory://x"),
    )
)
LAUGHS = b"store: store\ninputs:\n" + b"".join(  # every list has nine times the one before
    b"- &%c [%s]\n" % (98 + k, b", ".join([b"*%c" % (97 + k) if k else b"x"] * 9)) for k in range(9)
)
STORE_FILES = ("files.json", "history.jsonl", "night.json")
ASKED = (("status",), ("status", "--json"), ("quarantine",), ("quarantine", "--retry", "rows-2026-03-01.svm"))
DONE = (("rollback",), ("rollback", "2026-03-01"), ("release",))


class Jobs(Target):
    """A job after two nights."""

    name = "jobs"

    def prepare(self, folder: Path) -> None:
        """Run two nights."""
        chance, home = Random(self.name), folder / "job"
        (home / "incoming").mkdir(parents=True)
        (home / "job.yaml").write_text(yaml.safe_dump(SETTINGS))
        for day in (1, 2):
            (home / "incoming" / f"rows-2026-03-0{day}.svm").write_text(noisy_rows(chance, 30))
            run_nightly(read_job(home / "job.yaml"), date(2026, 3, day))
        self.home, self.job = home, read_job(home / "job.yaml")
        night = {"night": "2026-03-02", "date": "2026-03-02", "reference": "2026-03-01", "taken_in": True}
        self.contents = {name: (home / "store" / name).read_bytes() for name in STORE_FILES[:2]}
        self.contents["night.json"] = json.dumps(night).encode()

    def attempt(self, chance: Random, folder: Path) -> None:
        """Read another job.yaml, or plan and now and then run a night on another store."""
        kind = chance.random()
        if kind < 0.7:
            (folder / "job.yaml").write_bytes(_other_job(chance))
            read = read_job(folder / "job.yaml")
            json.dumps([read.settings, read.reading_digest, str(read.store), read.inputs])
            return
        dry = kind < 0.95  # files are replaced, if at all: links are as good as copies
        shutil.copytree(self.home, folder / "home", symlinks=True, copy_function=os.link if dry else shutil.copy2)
        self._damage(chance, folder / "home" / "store")
        home = folder / "home"
        job = replace(self.job, source=home / "job.yaml", store=home / "store", inputs=(str(home / "incoming"),))
        if kind < 0.85:
            json.dumps(plan_night(job, TODAY))
            return
        if kind < 0.98:
            with redirect_stdout(io.StringIO()):
                words = chance.choice(ASKED if dry else DONE)
                app.main(["store", words[0], str(home / "store"), *words[1:]], "svmsieve", standalone_mode=False)
            return
        for night in run_nightly(job, TODAY):
            if night.status not in STATUSES:
                raise WrongError("a night has no status", str(night))

    def _damage(self, chance: Random, store: Path) -> None:
        name = chance.choice(STORE_FILES)
        content = self.contents[name]
        if name.endswith(".jsonl"):
            changed = other_lines(chance, content)
        else:
            changed = mutated_json(chance, json.loads(content)) if chance.random() < 0.9 else mutated(chance, content)
        (store / name).unlink(missing_ok=True)
        (store / name).write_bytes(changed)


def _other_job(chance: Random) -> bytes:
    """Return a job of a few settings whose values or whose text are changed; JSON is YAML, and quick to write."""
    if chance.random() < 0.01:
        return LAUGHS.replace(b"inputs", chance.choice((b"inputs", b"gate", b"window", b"train", b"keep")), 1)
    known = SETTINGS | MORE
    names = {"inputs", "store", *chance.sample(list(known), 2)}
    item = {name: value for name, value in known.items() if name in names}
    write = (lambda it: json.dumps(it).encode()) if chance.random() < 0.7 else (lambda it: yaml.safe_dump(it).encode())
    if chance.random() < 0.6:
        return write(mutated_item(chance, item))
    return mutated(chance, write(item), TOKENS)
