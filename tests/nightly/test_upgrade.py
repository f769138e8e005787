"""A night that was interrupted, and completed by another version: trained afresh, for no run has models of two."""

from __future__ import annotations

import json

import pytest

from pipeline.events import StepProgress
from pipeline.nightly.gate import read_gate
from tests.nightly.nights import Nightly, day

pytestmark = pytest.mark.attack


class Stopped(BaseException):
    """The end of a process."""


def interrupted(tmp_path, steps: int = 1) -> Nightly:
    """One night is over, the next was stopped after some steps of its training."""

    def stop(event) -> None:
        nonlocal steps
        if isinstance(event, StepProgress) and event.done:
            steps -= 1
            if not steps:
                raise Stopped

    nightly = Nightly(tmp_path / "job")
    nightly.arrive(0)
    nightly.run(0)
    nightly.arrive(1)
    with pytest.raises(Stopped):
        nightly.run(1, listen=stop)
    return nightly


def test_a_night_that_another_version_completes_is_trained_afresh(tmp_path, monkeypatch):
    nightly = interrupted(tmp_path)
    assert len((nightly.store / "runs" / str(day(1)) / "steps.jsonl").read_text().splitlines()) == 1
    monkeypatch.setattr("pipeline.path.path.version", lambda name: "99")
    line = nightly.night(1)
    assert (line["status"], nightly.current()) == ("published", str(day(1)))
    header = json.loads((nightly.store / "current" / "run.json").read_text())
    assert header["versions"]["numpy"] == "99"
    assert header["status"] == "finished"


def test_a_night_whose_run_json_is_damaged_is_trained_afresh(tmp_path):
    nightly = interrupted(tmp_path)
    (nightly.store / "runs" / str(day(1)) / "run.json").write_text("{}")
    assert nightly.night(1)["status"] == "published"


@pytest.mark.parametrize(
    ("gate", "today", "yesterday", "passed"),
    [
        ("auc >= 0.5", None, None, False),
        ("auc >= yesterday", None, 0.5, False),
        ("auc >= yesterday", 0.5, None, False),
        ("auc >= yesterday", 0.5, 0.5, True),
    ],
)
def test_a_score_that_is_not_defined_passes_no_gate(gate, today, yesterday, passed):
    verdict = read_gate(gate).judge({"auc": today}, {"auc": yesterday})
    assert verdict.passed is passed
    assert "\n" not in str(verdict)
