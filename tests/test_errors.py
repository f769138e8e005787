"""An error is one printable line of a length that people read, whatever the file it speaks of has in it."""

from __future__ import annotations

import pickle

import pytest

from pipeline.errors import LONGEST, DataError, FetchError, SieveError, SpecError

pytestmark = pytest.mark.attack


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no column 'a\nb'; name it", "no column 'a b'; name it"),
        ("label \x1b[31m is new\r\n", "label ?[31m is new"),
        ("label \u202e is new", "label ? is new"),
        ("name \ud800 and \0", "name ? and ?"),
        ("é stays", "é stays"),
    ],
)
def test_what_a_file_says_cannot_break_the_line(said, shown):
    for error in (SieveError(said), SpecError(said), FetchError(said), DataError(said)):
        assert str(error) == shown
        assert str(pickle.loads(pickle.dumps(error))) == shown  # noqa: S301


def test_a_long_name_keeps_where_and_what_to_do():
    said = str(DataError(f"column '{'x' * 10**6}' is text; drop it", path="rows.csv", row=3))
    assert said.startswith("rows.csv, row 3: column 'xxx")
    assert said.endswith("xxx' is text; drop it")
    assert len(said) < LONGEST + 10
