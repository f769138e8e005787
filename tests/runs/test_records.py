"""Records of a run: real attributes, every key on disk, and files of every earlier version."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from dataclasses import fields
from importlib.resources import files
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import pipeline
from pipeline.data.tables.encoding import Encoding
from pipeline.errors import RunError
from pipeline.path.fit import fit_path
from pipeline.path.path import versions
from pipeline.runs.chain import foundation, link, sealed
from pipeline.runs.data_record import DataRecord
from pipeline.runs.directory import open_run
from pipeline.runs.records import RunHeader, StepRecord
from pipeline.spec import PathSpec
from tests.tampering import found, lines_of, write_lines
from tests.worlds import plain_world, write_shards

SETTINGS = {"grid": [0.01, 0.1, 1.0, 5.0], "holdout": 0.2, "scheduler": "inline"}
PROMISED = {"step", "c", "c_ref", "rule", "solver", "n_rows", "screened_zero", "screened_upper", "survivors"}
PROMISED |= {"working_set", "passes", "primal", "dual", "relative_gap", "n_free", "n_upper", "seconds"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Data, and a finished run on them."""
    folder = tmp_path_factory.mktemp("made")
    data = write_shards(folder / "shards", plain_world(60, 5), [20, 45])
    return data, fit_path(data, out=folder / "run", **SETTINGS)


@pytest.fixture
def copied(made, tmp_path):
    shutil.copytree(made[1].path, tmp_path / "run")
    return tmp_path / "run"


def read(run) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text())


# What is on disk


def test_a_record_is_its_line_and_a_header_its_file(made):
    run = made[1]
    assert [step.to_json() for step in run.steps] == lines_of(run.path)
    assert run.header.to_json() == read(run.path)
    assert all(set(line) >= PROMISED for line in lines_of(run.path)), "others rely on these keys"


def test_a_run_that_has_just_begun_says_null_for_what_it_has_not():
    about = DataRecord.of(pipeline.open_dataset("breast_cancer"))
    header = RunHeader.begun(PathSpec(), about, versions())
    item = header.to_json()
    missing = ["c_min", "class_weights", "n_steps", "best_step", "cv_scores", "peak_memory", "seconds"]
    assert [item[name] for name in missing] == [getattr(header, name) for name in missing] == [None] * len(missing)
    assert item["version"] == 3 and item["data"]["validation"] is None and item["data"]["reference"] == []
    assert DataRecord.from_json(json.loads(json.dumps(item["data"]))) == about == header.data


def test_a_finished_run_has_the_keys_it_began_with(made):
    begun = RunHeader.begun(made[1].spec, made[1].header.data, versions()).to_json()
    assert set(read(made[1].path)) == set(begun)


# Attributes


def is_kind(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated kind."""
    if isinstance(kind, UnionType):
        return any(is_kind(value, each) for each in get_args(kind))
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is dict:
        return isinstance(value, dict) and all(is_kind(x, inner[0]) and is_kind(y, inner[1]) for x, y in value.items())
    if origin is tuple and inner[-1] is not Ellipsis:
        return isinstance(value, tuple) and all(map(is_kind, value, inner))
    if origin in (list, tuple):
        return isinstance(value, origin) and all(is_kind(each, inner[0]) for each in value)
    return isinstance(value, (int, float) if origin is float else origin)


def test_every_attribute_is_of_the_kind_that_it_says(made):
    run = made[1]
    for record, kind in [(run.header, RunHeader), (run.header.data, DataRecord), *((s, StepRecord) for s in run.steps)]:
        hints = get_type_hints(kind, localns={"Encoding": Encoding})
        for each in fields(kind):
            value = getattr(record, each.name)
            assert each.name == "_item" or is_kind(value, hints[each.name]), (each.name, value)
    assert not is_kind(None, float) and is_kind(None, float | NoneType)


def test_an_editor_finds_what_there_is_and_nothing_else(made):
    step = made[1].steps[1]
    assert not any(hasattr(kind, "__getattr__") for kind in (pipeline.StepView, pipeline.Run, pipeline.RunHeader))
    assert {each.name for each in fields(pipeline.StepRecord)} >= PROMISED
    assert isinstance(step.w, np.ndarray) and step.header is made[1].header
    assert files("pipeline").joinpath("py.typed").is_file()
    assert set(pipeline.__all__) <= set(dir(pipeline))
    assert all(getattr(pipeline, name) for name in pipeline.__all__)


def test_fit_path_names_every_setting_with_its_default():
    parameters = inspect.signature(fit_path).parameters
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for each in fields(PathSpec):
        if each.name not in ("memory", "kernel", "select"):  # that of the run in ``out``, of the references, the usual
            assert parameters[each.name].default == each.default, each.name
        assert re.search(rf"^{each.name} : ", inspect.getdoc(fit_path), re.MULTILINE), "and says what it is"
    with pytest.raises(TypeError, match="'colour'"):
        fit_path("nowhere", colour="blue")


def test_fit_path_passes_every_setting_on(made):
    """Each other than its default; what cannot go together, in runs of their own."""
    many = {"c_max": 0.02, "epsilon": 0.5, "tol": 1e-3, "rule": "bt1", "solver": "dcd", "memory": "1GB", "select": "f1"}
    many |= {"class_weight": (1.0, 2.0), "fold": (0, 3), "predict": False, "shrink": False}
    one = fit_path(made[0], **many, scheduler="inline").spec
    two = fit_path(made[0], grid=[2], grid_in_c_min=True, cv=2, scheduler="inline").spec
    three = fit_path(made[0], grid=[0.01], holdout=0.3, scheduler="inline").spec
    assert one == PathSpec(**many | {"memory": 10**9})
    assert (two.grid, two.grid_in_c_min, two.cv, three.holdout) == ((2.0,), True, 2, 0.3)


# Older files


def older(run, version: int, without: tuple[str, ...] = ()) -> None:
    """Make a run what an earlier version wrote: what is missing is left out; version 1 as before there was a chain."""
    header = {name: value for name, value in read(run).items() if value is not None or name in ("c_min", "best_step")}
    data = {name: value for name, value in header["data"].items() if name == "columns" or value not in (None, [])}
    header |= {"version": version, "data": data}
    lines = [{name: x for name, x in line.items() if name not in ("model", "chain")} for line in lines_of(run)]
    if version > 1:
        chain = foundation(header)
        for line, written in zip(lines, lines_of(run), strict=True):
            line["model"] = written["model"]
            chain = line["chain"] = link(chain, line)
        header = sealed(header | {"chain": chain})
    else:
        header = {name: value for name, value in header.items() if name not in ("chain", "seal")}
    write_lines(run, lines)
    (run / "run.json").write_text(json.dumps({name: x for name, x in header.items() if name not in without}))


def cut_back(run, steps: int) -> None:
    """Make a finished run one that was killed after so many steps."""
    names = ("n_steps", "best_step", "seconds", "peak_memory")
    header = {name: value for name, value in read(run).items() if name not in names} | {"status": "running"}
    (run / "run.json").write_text(json.dumps(sealed(header) if "seal" in header else header))
    write_lines(run, lines_of(run)[:steps])


OLDER = {"version 1": (1, ()), "version 2": (2, ()), "version 2, before the seal": (2, ("seal",))}


@pytest.mark.parametrize("kind", OLDER)
def test_older_runs_are_read(made, copied, kind):
    older(copied, *OLDER[kind])
    run = open_run(copied)
    assert run.header.version == OLDER[kind][0] and run.header.to_json() == read(copied)
    assert (run.header.seal is None) == (kind != "version 2")
    assert (run.header.data.validation, run.header.data.reference) == (None, ())
    assert [step.to_json() for step in run.steps] == lines_of(copied)
    assert (run.steps[2].chain is None) == (run.steps[2].model_digest is None) == (kind == "version 1")
    for step, same in zip(run.steps, made[1].steps, strict=True):
        assert (step.c, step.primal, step.scores, step.class_weights) == (same.c, same.primal, same.scores, (1.0, 1.0))
    assert run.best.step == made[1].best.step


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("kind", OLDER)
def test_older_runs_are_continued_as_what_they_are(made, copied, kind, steps):
    """To the bit, and with the chain that they have: what was read is written back to the key."""
    older(copied, *OLDER[kind])
    before = read(copied)
    cut_back(copied, steps)
    run = fit_path(made[0], out=copied, **SETTINGS)
    assert [step.model.digest() for step in run.steps] == [step.model.digest() for step in made[1].steps]
    after = read(copied)
    assert set(after) == set(before) | ({"seal"} if after["version"] == 2 else set())
    assert {name: after[name] for name in ("version", "spec", "data")} == {
        name: before[name] for name in ("version", "spec", "data")
    }
    assert after.get("chain") == before.get("chain")
    assert [finding.problem for finding in found(copied, made[0])] == [""] * 4


def test_settings_that_an_older_version_did_not_know_are_not_added(made, copied):
    """The chain stands on run.json as it was written."""
    header = read(copied)
    del header["spec"]["shrink"]
    (copied / "run.json").write_text(json.dumps(header))
    older(copied, 2)
    cut_back(copied, 2)
    assert fit_path(made[0], out=copied, **SETTINGS).spec.shrink is True
    assert "shrink" not in read(copied)["spec"]
    assert all(finding.holds for finding in found(copied, made[0]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"rounds": "many"}, "rounds cannot be"), ({"model": 5}, "model cannot be"), ({"chain": []}, "chain cannot be")],
)
def test_a_line_with_something_else_in_a_key_is_damaged(copied, changes, said):
    write_lines(copied, [lines_of(copied)[0] | changes])
    with pytest.raises(RunError, match=rf"steps\.jsonl, line 1: damaged \({said}"):
        open_run(copied)


@pytest.mark.parametrize("name", ["n_steps", "seconds"])
def test_null_is_not_enough_in_a_finished_run(copied, name):
    (copied / "run.json").write_text(json.dumps(sealed(read(copied) | {name: None})))
    with pytest.raises(RunError, match=f"it does not say its {name}"):
        open_run(copied)
