"""Encodings as they are stored: whatever is changed in one is found, and says where."""

from __future__ import annotations

import copy

import pytest

from pipeline.data.tables.plan import Categorical, TablePlan, Text
from pipeline.data.tables.stored import from_json, to_json
from tests.data.tables.frames import learnt

PLAN = TablePlan(
    treatments=(("note", Text((1, 2))), ("kind", Categorical("hash"))), crosses=(("kind", "flag"),), hash_bits=5
)
MADE = to_json(
    learnt(
        {
            "x": [1.0, 2.0, None] * 10,
            "kind": ["a", "b", "c"] * 10,
            "flag": [True, False, None] * 10,
            "when": ["2013-01-01", "2014-05-06", None] * 10,
            "note": ["some words", "other", None] * 10,
        },
        PLAN,
    )
)
PLACES = {role["role"]: k for k, role in enumerate(MADE["roles"]) if len(role.get("columns", "x")) == 1}


def with_change(path, value):
    item = copy.deepcopy(MADE)
    holder = item
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return item


def role(kind, name):
    return ("roles", PLACES[kind], name)


WRONG = [
    (("roles",), [], "roles"),
    (("roles",), None, "roles"),
    (("label",), "x", "two of label, weight, group and feature"),
    (("weight",), "x", "two of label, weight, group and feature"),
    (("weight",), "label", "two of label, weight, group and feature"),
    (("group",), "when", "two of label, weight, group and feature"),
    (("label",), 1, "label"),
    (("hash_bits",), 29, "hash_bits"),
    (("hash_bits",), -1, "hash_bits"),
    (("left_out",), [["x"]], "left_out has an entry that is not a column and a reason"),
    (("frequent",), [1], "frequent"),
    (role("number", "scale"), 0.0, "scale"),
    (role("number", "scale"), -1.0, "scale"),
    (role("number", "mean"), float("nan"), "mean"),
    (role("number", "gap"), float("inf"), "gap"),
    (role("number", "missing"), "median", "missing"),
    (role("number", "role"), "numbr", "no role that this svmsieve knows"),
    (role("number", "more"), 1, "more"),
    (role("category", "values"), ["a", "a"], "values has an entry twice"),
    (role("category", "columns"), ["flag", "flag"], "columns has an entry twice"),
    (role("category", "columns"), [], "columns"),
    (role("category", "min_count"), 0, "min_count"),
    (role("date", "parts"), [], "parts"),
    (role("date", "parts"), ["century"], "parts"),
    (role("words", "ngrams"), [2, 1], "ngrams is not a pair"),
    (role("words", "ngrams"), [1, 1, 1], "ngrams is not a pair"),
    (role("words", "ngrams"), [0, 1], "ngrams"),
    (role("hashed", "columns"), [1], "columns"),
]


def test_an_encoding_is_the_same_again():
    assert to_json(from_json(MADE)) == MADE


@pytest.mark.parametrize(("path", "value", "said"), WRONG)
def test_what_cannot_be_is_refused(path, value, said):
    with pytest.raises(ValueError, match=said) as raised:
        from_json(with_change(path, value))
    assert "table" in str(raised.value)


@pytest.mark.parametrize("name", [*MADE])
def test_nothing_is_left_out_or_more(name):
    with pytest.raises(ValueError, match=name):
        from_json({key: value for key, value in MADE.items() if key != name})
    with pytest.raises(ValueError, match="other"):
        from_json(MADE | {"other": 1})


def test_names_of_buckets_where_there_are_none():
    item = to_json(learnt({"x": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="frequent names what is hashed, and nothing is"):
        from_json(item | {"frequent": ["x=1"]})


def test_more_features_than_can_be():
    many = [{"role": "category", "columns": ["kind"], "values": [], "min_count": 1}] * 3
    assert from_json(MADE | {"roles": many, "frequent": []}).n_features == 6
    with pytest.raises(ValueError, match="hash_bits"):
        from_json(MADE | {"hash_bits": 31})
