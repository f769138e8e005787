"""The command lines that make a run again and verify it, from what run.json says."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.path.curve import COARSELY, MOST_DECADES
from pipeline.progress import human_bytes
from pipeline.report.parts import Command
from pipeline.runs.directory import read_item
from pipeline.runs.run import RunOf
from pipeline.runs.searched import FINE, folds_of, search_of, searches
from pipeline.spec import PATIENCE, PathSpec

OF_BOTH = ("tol", "rule", "solver", "holdout", "kernel", "seed")  # settings that path and tune call alike
OF_PATH = ("c_max", "epsilon", "cv", "select", "patience", "gamma")
METRICS = {"balanced_accuracy": "balanced", "weighted_accuracy": "weighted"}
USUAL_FOLDS = 5  # tune's own, which a command need not name
WHOLE_LATTICE = COARSELY * MOST_DECADES + 1  # values of C, where no --c-max was given


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
    search = None if run.header.cv_c is None else search_of(run)
    words = ["svmsieve path", data, "--out NEW_RUN", *_path_options(run.spec)]
    if search is not None:
        words = ["svmsieve tune", data, "--out NEW_RUN", *_tune_options(run, search)]
    if run.spec.class_weight is not None:
        words.append(f"--class-weight {shlex.quote(_weights(run.spec.class_weight))}")
    if run.header.data.validation:
        words.append("--validation DATA2")
    if run.header.data.bias and run.header.data.encoding is None:
        words.append(f"--bias {run.header.data.bias:g}")
    return " ".join([*words, f"--memory {run.spec.memory}"])


def _path_options(spec: PathSpec) -> list[str]:
    """Return the settings of a path that are not the default as options."""
    words = [] if spec.grid is None else [f"--grid {_listed(spec.grid, 'x' if spec.grid_in_c_min else '')}"]
    return [*words, *_given(spec, OF_BOTH + OF_PATH), *(["--every-row"] if spec.every_row else [])]


def _tune_options(run: RunOf[Any], search: Path) -> list[str]:
    """Return the options of tune, from the runs of its search and from what was made of them."""
    folders, header = searches(run.path), run.header
    specs = [_spec(folds_of(folder)[0][0]) for folder in folders]
    spec, coarse = specs[0], max((_coarse(folder) for folder in folders), key=len)
    if not (search / FINE).is_dir():
        words = [f"--grid {_listed(coarse)}"]
    else:
        words = [f"--c-max {coarse[-1]!r}"] if len(coarse) < WHOLE_LATTICE else []
    if spec.fold and spec.fold[1] != USUAL_FOLDS:
        words.append(f"--cv {spec.fold[1]}")
    if spec.select != PathSpec.select:
        words.append(f"--metric {METRICS.get(spec.select, spec.select)}")
    if spec.patience not in (0, PATIENCE):  # 0: of a grid, or of several classes, which do not keep it
        words.append(f"--patience {spec.patience}")
    if run.steps[0].c != header.c_best:
        words.append("--select 1se")
    kinds = header.calibration if isinstance(header.calibration, tuple) else (header.calibration,)
    kind = "none" if kinds[0] is None else kinds[0].kind
    words += [f"--calibration {kind}"] if kind != "sigmoid" else []
    gammas = [each.gamma for each in specs if each.gamma is not None]
    words += [f"--gamma {_listed(gammas)}"] if gammas else []
    return [*words, *_given(spec, OF_BOTH)]


def _coarse(search: Path) -> list[float]:
    """Return the C of a search but for the fine ones."""
    places = [place for place in folds_of(search)[0] if place.parent.name != FINE]
    return [c for place in places for c in _spec(place).grid or ()]


def _spec(place: Path) -> PathSpec:
    return PathSpec.from_json(read_item(place)["spec"])


def _listed(numbers: Sequence[float], unit: str = "") -> str:
    return ",".join(f"{x!r}{unit}" for x in numbers)


def _given(spec: PathSpec, names: Sequence[str]) -> list[str]:
    """Return the settings of these names that are not the default as options."""
    default = PathSpec()
    changed = [(name, getattr(spec, name)) for name in names if getattr(spec, name) != getattr(default, name)]
    return [f"--{name.replace('_', '-')} {value}" for name, value in changed]


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
