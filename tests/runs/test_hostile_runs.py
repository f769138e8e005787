"""Run directories that anybody can have changed: every command that opens one says what is wrong in one line."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline.errors import RunError
from pipeline.runs.directory import open_run
from pipeline.runs.model_file import StoredModel
from tests.trained import command, shards_of, sparse_rows

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return shards_of(tmp_path_factory.mktemp("data"), sparse_rows())


@pytest.fixture(scope="module")
def run(tmp_path_factory, data):
    out = tmp_path_factory.mktemp("made") / "run"
    return pipeline.fit_path(data, out=out, grid=(0.1, 1.0), holdout=0.3, memory="1GB", scheduler="inline").path


def commands(run: Path, data: Any, folder: Path) -> dict[str, list]:
    """All that open a run."""
    quick = ["--scheduler", "inline", "-q"]
    return {
        "predict": [run, data.path, "--c", 1, "--out", folder / "p.parquet", *quick],
        "export": [run, "--c", 1, "--out", folder / "svm.npz"],
        "weights": [run, "--c", 1],
        "verify": [run, data.path, *quick],
        "screen": [data.path, "--reference", run, "--c", 1.05, "--out", folder / "v.parquet", *quick],
        "train": [data.path, "--reference", run, "--c", 1.05, "--out", folder / "other", *quick],
        "path": [data.path, "--out", run, "--grid", "0.1,1", "--holdout", 0.3, "--memory", "1GB", *quick],
    }


def header(**changes: Any):
    def change(run: Path) -> None:
        item = json.loads((run / "run.json").read_text())
        for key, value in changes.items():
            *path, last = key.split("__")
            place = item
            for name in path:
                place = place[name]
            if value is ...:
                del place[last]
            else:
                place[last] = value
        (run / "run.json").write_text(json.dumps(item))

    return change


def line(**changes: Any):
    def change(run: Path) -> None:
        lines = [json.loads(text) for text in (run / "steps.jsonl").read_text().splitlines()]
        lines[1] = {k: v for k, v in (lines[1] | changes).items() if v is not ...}
        (run / "steps.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines))

    return change


def text(name: str, content: str):
    return lambda run: (run / name).write_text(content)


def array(**changes: Any):
    """Replace arrays of the last model; bytes are written as they are."""

    def change(run: Path) -> None:
        path = run / "models" / "000001.npz"
        with zipfile.ZipFile(path) as archive:
            entries = {info.filename: archive.read(info) for info in archive.infolist()}
        for name, value in changes.items():
            stream = BytesIO()
            if isinstance(value, bytes):
                stream.write(value)
            else:
                np.save(stream, value, allow_pickle=True)
            entries[f"{name}.npy"] = stream.getvalue()
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, content)

    return change


def npy(text_: str, content: bytes = b"") -> bytes:
    """An npy file with any header."""
    return b"\x93NUMPY\x01\x00" + len(text_).to_bytes(2, "little") + text_.encode() + content


def instead(name: str, make: Any):
    """Put something else where a file is."""

    def change(run: Path) -> None:
        (run / name).unlink()
        make(run / name)

    return change


HEADERS = {
    "a sketch that is a list": header(sketch=[1]),
    "a sketch without its hash": header(sketch={"version": 1, "count": 60, "complete": True}),
    "a sketch of half a row": header(sketch={"version": 1, "count": 0.5, "complete": True, "sha256": ""}),
    "a spec that is a list": header(spec=[]),
    "a spec with an unknown field": header(spec__colour="blue"),
    "a tol of the wrong type": header(spec__tol="small"),
    "class weights of one class": header(spec__class_weight=[1]),
    "a grid of nothing": header(spec__grid=[None]),
    "data that are a list": header(data=[]),
    "no labels": header(data__labels=...),
    "labels that are numbers": header(data__labels={"negative": [0], "positive": [1]}),
    "labels of one side": header(data__labels={"negative": ["0"]}),
    "labels that no table takes": header(data__labels={"negative": ["0"], "positive": ["\ud800"]}),
    "names that no table takes": header(data__columns=["\ud800"] * 12),
    "names that are numbers": header(data__columns=[1]),
    "no positive label": header(data__labels={"negative": ["0"], "positive": []}),
    "a bias that is text": header(data__bias="1"),
    "no bias": header(data__bias=...),
    "rows of another number": header(data__rows=10**12),
    "rows that are text": header(data__rows="60"),
    "features without end": header(data__features=2**40),
    "shards that are numbers": header(data__shards=[1, 2]),
    "a shard's digest that is none": header(data__shards=[["digest", 60]]),
    "a status that nobody knows": header(status="almost"),
    "steps that cannot be counted": header(n_steps="two"),
    "more steps than there are": header(n_steps=7),
    "a best step of text": header(best_step="best"),
    "class weights that are none": header(class_weights=[0, 1]),
    "a C_min below 0": header(c_min=-1.0),
    "a calibration that is text": header(calibration="sigmoid"),
    "a calibration that falls": header(calibration={"kind": "sigmoid", "c": 0.1, "slope": -1.0, "intercept": 0.0}),
    "nested without end": text("run.json", "[" * 100_000),
    "a number without end": text("run.json", "9" * 10_000),
}
STEPS = {
    "a flipped key": lambda run: (run / "steps.jsonl").write_text(
        (run / "steps.jsonl").read_text().replace('"c"', '"b"')
    ),
    "no C": line(c=...),
    "C is text": line(c="1"),
    "C is nan": line(c=float("nan")),
    "C is 0": line(c=0.0),
    "C without end": line(c=10**400),
    "C does not ascend": line(c=0.05),
    "a step that is true": line(step=True),
    "no gap": line(relative_gap=...),
    "scores that are a list": line(scores=[1]),
    "scores above 1": line(scores=dict.fromkeys(("accuracy", "balanced_accuracy", "auc", "f1"), 2.0)),
    "a log-loss below 0": line(
        scores=dict.fromkeys(("accuracy", "balanced_accuracy", "auc", "f1"), 0.5) | {"log_loss": -1.0}
    ),
    "seconds that are one number": line(seconds=1.0),
    "rows below 0": line(n_rows=-1),
    "a list": text("steps.jsonl", "[]\n"),
    "nested": text("steps.jsonl", "[" * 100_000 + "\n"),
}
MODELS = {
    "rows without end": array(n_rows=np.int64(10**12)),
    "rows below 0": array(n_rows=np.int64(-1)),
    "features without end": array(n_features=np.int64(2**40)),
    "complex weights": array(w_value=np.ones(3, complex), w_index=np.arange(3)),
    "weights of float32": array(w_value=np.ones(3, np.float32), w_index=np.arange(3)),
    "weights that are not finite": array(w_value=np.full(3, np.nan), w_index=np.arange(3)),
    "weights that are objects": array(w_value=np.array([1, "x", None], object)),
    "fewer indices than weights": array(w_index=np.arange(2), w_value=np.ones(3)),
    "an index below 0": array(w_index=np.array([-1, 0]), w_value=np.ones(2)),
    "an index that wraps": array(w_index=np.array([5, -(2**63)]), w_value=np.ones(2)),
    "an index twice": array(w_index=np.array([1, 1]), w_value=np.ones(2)),
    "an index too large": array(w_index=np.array([99]), w_value=np.ones(1)),
    "indices that are floats": array(w_index=np.array([1.0]), w_value=np.ones(1)),
    "two dimensions": array(w_index=np.array([[1]]), w_value=np.ones((1, 1))),
    "another C": array(c=np.float64(7.0)),
    "C is a list": array(c=np.array([1.0, 2.0])),
    "an array of 8 TB": array(w_value=npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n")),
    "a header that ends": array(w_value=npy("{'descr': '<f8', 'fortran_order': (")),
    "a header that nests": array(w_value=npy("(" * 900)),
    "no header": array(w_value=b""),
    "no zip": lambda run: (run / "models" / "000001.npz").write_bytes(b"PK" * 100),
    "empty": lambda run: (run / "models" / "000001.npz").write_bytes(b""),
}
PLACES = {
    "no steps": lambda run: (run / "steps.jsonl").unlink(),
    "no models": lambda run: shutil.rmtree(run / "models"),
    "run.json is a folder": instead("run.json", Path.mkdir),
    "run.json never ends": instead("run.json", lambda path: path.symlink_to("/dev/zero")),
    "run.json is a pipe": instead("run.json", os.mkfifo),
    "steps.jsonl never ends": instead("steps.jsonl", lambda path: path.symlink_to("/dev/zero")),
    "steps.jsonl is a pipe": instead("steps.jsonl", os.mkfifo),
    "the model never ends": instead("models/000001.npz", lambda path: path.symlink_to("/dev/zero")),
    "the model is a circle": instead("models/000001.npz", lambda path: path.symlink_to(path.name)),
    "the model is a pipe": instead("models/000001.npz", os.mkfifo),
    "the model is a folder": instead("models/000001.npz", Path.mkdir),
}
KINDS = {"HEADERS": HEADERS, "STEPS": STEPS, "MODELS": MODELS, "PLACES": PLACES}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, damages in KINDS.items() for name in damages])
def test_every_command_says_in_one_line_what_is_wrong(run, data, tmp_path, capsys, kind, name):
    """Export opens a run as predict does, and train as screen does; verify reads steps and models in its own way."""
    damaged = shutil.copytree(run, tmp_path / "run")
    KINDS[kind][name](damaged)
    known = commands(damaged, data, tmp_path)
    refused = []
    verbs = ["predict", "screen", "path"]
    if name == next(iter(KINDS[kind])):
        verbs[2:2] = ["export", "train"]
    for verb in [*verbs, *(["verify"] if kind in ("HEADERS", "PLACES") else [])]:
        code, out, err = command(capsys, verb, *known[verb])
        if code:
            assert (code, out) == (1, "")
            (said,) = err.splitlines()
            assert len(said) < 1200
            refused.append(verb)
    assert set(refused) >= set(verbs) - {"path"}, "damage that is used without a word"
    assert "path" not in refused or kind in ("HEADERS", "PLACES"), "training mends steps and models"


def test_the_run_that_is_not_damaged_is_fine(run, data, tmp_path, capsys):
    for verb, words in commands(run, data, tmp_path).items():
        assert command(capsys, verb, *words)[0] == 0, verb


def test_an_unreadable_model_is_one_line(run, tmp_path, monkeypatch):
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(RunError, match=r"cannot be read \(Permission denied\); check its permissions"):
        StoredModel(run / "models" / "000001.npz").is_there()


def test_nothing_is_allocated_that_the_file_does_not_vouch_for(run, tmp_path, monkeypatch):
    damaged = shutil.copytree(run, tmp_path / "run")
    array(n_rows=np.int64(10**12))(damaged)
    header(data__rows=10**12)(damaged)
    step = open_run(damaged).steps[1]
    monkeypatch.setattr("pipeline.runs.model_file.np.zeros", None)
    for ask in (lambda: step.alpha, lambda: step.verdicts, lambda: step.w):
        with pytest.raises(RunError, match="zero_bits are not those of 1000000000000 rows"):
            ask()


def test_what_is_exported_is_read_back_without_pickle(run, tmp_path, capsys):
    out = tmp_path / "svm.npz"
    assert command(capsys, "export", run, "--out", out, "--as", "sklearn")[0] == 0
    with np.load(out, allow_pickle=False) as stored:
        content = {name: stored[name] for name in stored.files}
    assert not any(value.dtype.hasobject for value in content.values())
    for name in content:
        np.savez(out, **content | {name: np.array([{"a": 1}], object)})
        with pytest.raises(RunError, match="no file of svmsieve export --as sklearn"):
            pipeline.load_sklearn(out)


def test_a_run_whose_name_no_file_can_have():
    with pytest.raises(RunError, match=r"cannot be read \(File name too long\); name a run directory"):
        open_run("1" * 5000)
