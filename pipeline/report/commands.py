"""The command lines that make a run again and verify it, from what run.json says."""

from __future__ import annotations

import shlex
from typing import Any

from pipeline.progress import human_bytes
from pipeline.report.parts import Command
from pipeline.runs.directory import SEARCH, RunOf, read_item
from pipeline.spec import PATIENCE, PathSpec

SHOWN = ("c_max", "epsilon", "tol", "rule", "solver", "holdout", "cv", "select", "patience", "kernel", "gamma", "seed")
METRICS = {"balanced_accuracy": "balanced"}


def commands(run: RunOf[Any]) -> list[Command]:
    """Return the commands to make the run again, to verify it, and to use its model."""
    data, path = shlex.quote(run.header.data.path), shlex.quote(str(run.path))
    verify = f"svmsieve verify {path} {data}"
    if run.header.data.validation:
        verify += " --validation DATA2"
    found = [Command("Verify every certificate", verify), Command("Make it again", _again(run, data))]
    predict = f"svmsieve predict {path} NEW_DATA --out predictions.parquet"
    return [*found, Command("Use the model", predict)]


def _again(run: RunOf[Any], data: str) -> str:
    spec, words = run.spec, ["svmsieve path", data, "--out NEW_RUN"]
    if run.header.cv_c is not None:
        spec, words = _searched(run), ["svmsieve tune", data, "--out NEW_RUN"]
    words += _options(spec, tuned=run.header.cv_c is not None)
    if run.header.data.validation:
        words.append("--validation DATA2")
    if run.header.data.bias and run.header.data.encoding is None:
        words.append(f"--bias {run.header.data.bias:g}")
    return " ".join([*words, f"--memory {run.spec.memory}"])


def _searched(run: RunOf[Any]) -> PathSpec:
    """Return the settings of a tuned run's search."""
    places = [*(run.path / SEARCH).glob("coarse/0"), *(run.path / SEARCH).glob("gamma-*/coarse/0")]
    return PathSpec.from_json(read_item(places[0])["spec"]) if places else run.spec


def _options(spec: PathSpec, tuned: bool) -> list[str]:
    """Return the settings that are not the default as options; a search has its own default, and its own names."""
    default, words = PathSpec(), []
    folds = spec.fold[1] if spec.fold and tuned else spec.cv
    if folds and not (tuned and folds == 5):
        words.append(f"--cv {folds}")
    if spec.grid is not None and not tuned:
        unit = "x" if spec.grid_in_c_min else ""
        words.append("--grid " + ",".join(f"{c!r}{unit}" for c in spec.grid))
    for name in SHOWN:
        value = getattr(spec, name)
        usual = PATIENCE if tuned and name == "patience" else getattr(default, name)
        if name == "cv" or value == usual or (tuned and name in ("c_max", "epsilon")):
            continue
        option = "metric" if tuned and name == "select" else name.replace("_", "-")
        shown = f"{value!r}" if isinstance(value, float) else METRICS.get(value, value) if tuned else value
        words.append(f"--{option} {shown}")
    if spec.class_weight is not None:
        words.append(f"--class-weight {shlex.quote(_weights(spec.class_weight))}")
    return words


def _weights(given: Any) -> str:
    if isinstance(given, str):
        return given
    return ",".join(f"{each[0]}={each[1]:g}" if isinstance(each, tuple) else f"{each:g}" for each in given)


def memory(run: RunOf[Any]) -> str:
    """Say how much memory a run took, against its budget."""
    budget, peak = run.spec.memory, run.header.peak_memory
    if not peak:
        return f"a budget of {human_bytes(budget)}; what was used is known when the run is finished"
    return f"{human_bytes(peak)} of a budget of {human_bytes(budget)} ({peak / budget:.0%})"
