"""Settings and budgets are refused before any work, with a message that says what to do."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from pipeline.budget import (
    BASE,
    BATCH,
    CARRIED_ROW_BYTES,
    CARRIED_VECTORS,
    LEAST_WORKING_SET,
    MASKS,
    ROW_BYTES,
    SHARE_FOR_WORKERS,
    VECTORS,
    project,
)
from pipeline.errors import BudgetError, SpecError
from pipeline.spec import PathSpec


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"c_max": 0}, "c_max must be a positive finite number, not 0"),
        ({"c_max": math.inf}, "c_max must be a positive finite number, not inf"),
        ({"epsilon": -1e-3}, "epsilon must be a positive"),
        ({"tol": math.nan}, "tol must be a positive finite number, not nan"),
        ({"tol": "small"}, "tol must be a positive finite number, not 'small'"),
        ({"tol": 1.0}, "tol is a relative gap below 1, and of at least 1e-15, not 1.0"),
        ({"grid": ()}, "write for example 0.01,0.1,1"),
        ({"grid": (1.0, -2.0)}, "C must be a positive finite number, not -2.0"),
        ({"rule": "dvi"}, "unknown rule 'dvi'; there are it, bt1, bt2, gap, none"),
        ({"solver": "sgd"}, "unknown solver 'sgd'; there are auto, dcd, newton, liblinear"),
        ({"select": "loss"}, "unknown select 'loss'; there are accuracy"),
        ({"holdout": 1.0}, "holdout is a share of the rows from 0 to below 1, not 1.0"),
        ({"holdout": -0.1}, "holdout is a share"),
        ({"fold": (3, 3)}, "fold 3 of 3 does not exist"),
        ({"cv": 1}, "at least 2 folds"),
        ({"cv": 3, "holdout": 0.2}, "no hold-out beside it"),
        ({"class_weight": "even"}, "unknown class_weight 'even'; there are balanced"),
        ({"class_weight": (1.0, 0.0)}, "a class weight must be a positive finite number, not 0.0"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(SpecError) as refused:
        PathSpec(**settings)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "spec",
    [
        PathSpec(),
        PathSpec(grid=(0.1, 1.0), grid_in_c_min=True, class_weight=(1.0, 2.0), fold=(1, 3)),
        PathSpec(class_weight="balanced", cv=5, select="auc", predict=False, shrink=False),
    ],
)
def test_a_spec_survives_json(spec):
    assert PathSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert spec.difference(spec) == ""


def test_differences_are_named():
    assert PathSpec(tol=1e-3).difference(PathSpec()) == "tol was 0.0001 and is now 0.001"
    assert replace(PathSpec(), cv=3).difference(PathSpec()) == "cv was 0 and is now 3"
    with pytest.raises(SpecError, match="unknown setting 'degree'"):
        PathSpec.from_json({"degree": 3})


def test_a_budget_is_divided_and_nothing_is_lost():
    found = project(1_000_000, 50_000, 2 * 10**9, workers=2)
    assert not found.scratch
    rest = found.budget - found.base - found.vectors - found.row_arrays
    assert found.room == int(rest * (1 - SHARE_FOR_WORKERS))
    assert 0 < found.newton < found.working_set < found.room


def test_arrays_by_row_go_to_scratch_files_when_they_are_a_large_share():
    found = project(20_000_000, 1000, 2 * 10**9)
    assert found.scratch
    assert found.row_arrays == MASKS * 20_000_000


def test_what_cannot_fit_is_refused_with_both_numbers():
    with pytest.raises(BudgetError) as refused:
        project(1000, 30_000_000, 10**9)
    least = BASE + VECTORS * 8 * 30_000_000 + ROW_BYTES * 1000 + int(BATCH / SHARE_FOR_WORKERS)
    text = str(refused.value)
    assert "1,000 rows and 30,000,000 features" in text
    assert f"need at least {least / 1e6:,.0f} MB, but the budget is 1,000 MB; raise --memory" in text
    assert project(1000, 30_000_000, least).room >= LEAST_WORKING_SET
    with pytest.raises(BudgetError):
        project(1000, 30_000_000, least - 1)


def test_models_of_other_runs_have_their_place_in_the_budget() -> None:
    """Four points by row and feature were there at a time, two of them were counted."""
    plain, carried = (project(100_000, 50_000, 2 * 10**9, carried=each) for each in (False, True))
    assert carried.vectors - plain.vectors == CARRIED_VECTORS * 8 * 50_000
    assert carried.row_arrays - plain.row_arrays == CARRIED_ROW_BYTES * 100_000
    assert carried.room < plain.room
