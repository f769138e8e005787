"""Records of nights: every key on disk, real attributes, and the lines of every earlier version."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from pipeline.cli.nightly import _said
from pipeline.nightly.gate import Verdict, read_gate
from pipeline.nightly.history import read_history, written
from pipeline.nightly.records import LeftOut, NightFiles, NightRecord
from pipeline.nightly.summary import summary
from pipeline.nightly.under_way import UnderWay

NAN = float("nan")
FAILED = NightRecord(night="2026-03-01", date="2026-03-01", status="failed", error="no file could be added")
PUBLISHED = NightRecord(
    night="2026-03-02.2",
    date="2026-03-02",
    status="published",
    reference="2026-03-01",
    settings="digest",
    files=NightFiles(("a.svm",), (), ("b.svm",), (LeftOut("c.svm", "corrupt", "line 1"),), 40, 20),
    notes=("the published run cannot be used",),
    rows=80,
    features=8,
    fingerprint="print",
    c=0.5,
    models=3,
    relative_gap=1e-5,
    verified=True,
    problem="",
    settled=0.9,
    reference_gap=0.1,
    scores={"accuracy": 0.8, "auc": None},
    yesterday={"accuracy": 0.7, "auc": None},
    gates=(Verdict("accuracy >= 0.7", 0.8, 0.7, True),),
    passes=4.5,
    seconds={"train": 1.5, "total": 2.0},
    ended="2026-03-02T03:00:00Z",
)


@pytest.mark.parametrize("night", [FAILED, PUBLISHED])
def test_a_record_is_read_as_it_was_written(night):
    line = json.loads(written(night))
    assert NightRecord.from_json(line) == night
    assert list(line) == ["version", *(each.name for each in fields(NightRecord))]
    assert line["version"] == 3
    assert (line["c"] is None) == (night.status == "failed"), "null for what is missing"


@pytest.mark.parametrize("night", [FAILED, PUBLISHED])
@pytest.mark.parametrize("version", [None, 1, 2])
def test_lines_of_older_versions_leave_out_what_is_missing(night, version):
    line = {name: value for name, value in night.to_json().items() if value not in (None, [])} | {"version": version}
    if version is None:
        del line["version"]
    assert NightRecord.from_json(line) == night


def test_a_line_that_hardly_says_anything():
    line = {"night": "2026-03-01", "date": "2026-03-01", "status": "nothing new"}
    assert NightRecord.from_json(line) == NightRecord(**line)


def test_what_is_no_number_is_none():
    night = replace(PUBLISHED, reference_gap=NAN, scores={"accuracy": NAN}, gates=(Verdict("f1 > 0", NAN, NAN, False),))
    item = json.loads(written(night), parse_constant=pytest.fail)
    assert (item["reference_gap"], item["scores"], item["gates"][0]["value"]) == (None, {"accuracy": None}, None)
    assert NightRecord.from_json(night.to_json()).reference_gap is None


BAD = {"rows": 1.5, "c": True, "relative_gap": 10**400, "verified": 1, "scores": {"auc": "high"}, "gates": [1]}
BAD |= {"notes": [1], "problem": 5, "seconds": {"total": None}, "ended": "late", "models": "3", "settings": {}}


@pytest.mark.parametrize("name", BAD)
def test_a_key_with_something_else_in_it_is_damage_and_costs_one_line(tmp_path, name):
    path = tmp_path / "history.jsonl"
    path.write_text(written(FAILED) + json.dumps(PUBLISHED.to_json() | {name: BAD[name]}) + "\n" + written(PUBLISHED))
    history = read_history(path)
    assert history.nights == [FAILED, PUBLISHED] and len(history.damage) == 1
    assert history.damage[0].startswith(f"{path}, line 2: damaged (")


@pytest.mark.parametrize(
    "changes",
    [
        {"added": "a.svm"},
        {"late": [1]},
        {"rows_added": None},
        {"left_out": [{"file": "c.svm"}]},
        {"left_out": [5]},
        {"left_out": [{"file": "c.svm", "status": 1, "reason": ""}]},
    ],
)
def test_files_that_are_none_are_damage(changes):
    item = PUBLISHED.to_json()
    item["files"] |= changes
    with pytest.raises((ValueError, LookupError, TypeError)):
        NightRecord.from_json(item)


def test_a_version_to_come_is_said():
    with pytest.raises(ValueError, match="version 4, but this svmsieve reads up to 3"):
        NightRecord.from_json(PUBLISHED.to_json() | {"version": 4})


def test_a_score_that_is_not_defined_is_said():
    """A class is missing in the rows held out: no gate passes, and both pages say so."""
    today, yesterday = {"accuracy": None, "auc": 0.5}, {"accuracy": None, "auc": None}
    gates = tuple(read_gate(text).judge(today, yesterday) for text in ("accuracy >= 0.5", "auc >= yesterday"))
    night = replace(PUBLISHED, status="refused", scores=today, yesterday=yesterday, gates=gates, reference_gap=None)
    said = "\n".join(_said(night))
    assert "accuracy not defined (yesterday's model not defined)" in said
    assert "gate not passed: accuracy >= 0.5 (it is not defined: a class is missing)" in said
    assert "gate not passed: auc >= yesterday (yesterday's is not defined)" in said
    assert "| auc | 0.5000 | not defined |" in summary(night)
    assert "its relative gap on today's data: not defined" in summary(night)


# The night that is under way


def test_a_night_under_way_is_read_as_it_was_written():
    night = UnderWay("2026-03-02.2", "2026-03-02", "2026-03-01", ("a note",), True, "in training", 2, PUBLISHED)
    assert UnderWay.from_json(json.loads(json.dumps(night.to_json()))) == night
    assert UnderWay("2026-03-02", "2026-03-02").to_json()["line"] is None


def test_a_night_that_an_older_version_began():
    item = {"night": "2026-03-02", "date": "2026-03-02", "reference": None}
    assert UnderWay.from_json(item) == UnderWay("2026-03-02", "2026-03-02")
    line = {"version": 2, "night": "2026-03-02", "date": "2026-03-02", "status": "failed", "error": "x"}
    more = item | {"notes": ["n"], "taken_in": True, "stops": 3, "place": "in training", "line": line}
    assert UnderWay.from_json(more).record == NightRecord.from_json(line)


@pytest.mark.parametrize(
    "changes",
    [{"version": 2}, {"format": "other"}, {"notes": "n"}, {"stops": "3"}, {"place": 3}, {"line": FAILED.to_json()}],
)
def test_a_night_under_way_that_is_none(changes):
    with pytest.raises(ValueError, match=r"version|notes|place or stops|another night"):
        UnderWay.from_json({"night": "2026-03-02", "date": "2026-03-02", "reference": None} | changes)
