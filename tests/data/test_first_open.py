"""Two commands that open the same file for the first time: one ingests it, the other waits and uses the result."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.data import inputs
from pipeline.data.cache import cache_directory
from pipeline.data.inputs import open_dataset
from pipeline.errors import DataError
from pipeline.events import Note

pytestmark = pytest.mark.attack


@pytest.fixture
def source(tmp_path) -> Path:
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n" * 3)
    return tmp_path / "rows.svm"


class Ingests:
    """Counts ingests; the first one goes on when someone waits for it, or fails."""

    def __init__(self, monkeypatch, fails: bool = False) -> None:
        self.count, self.begun, self.awaited = 0, threading.Event(), threading.Event()
        original = inputs.ingest

        def ingest(*arguments, **options):
            self.count += 1
            if self.count == 1:
                self.begun.set()
                assert self.awaited.wait(60)
                if fails:
                    raise DataError("the first one fails")
            return original(*arguments, **options)

        monkeypatch.setattr(inputs, "ingest", ingest)

    def listen(self, event: object) -> None:
        if isinstance(event, Note) and event.text.startswith("waiting for another svmsieve"):
            self.awaited.set()


def test_the_second_waits_and_uses_the_result(source, monkeypatch):
    ingests = Ingests(monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(open_dataset, source)
        assert ingests.begun.wait(60)
        second = pool.submit(open_dataset, source, None, ingests.listen)
        assert first.result(60) == second.result(60)
    assert ingests.count == 1


def test_the_second_does_it_where_the_first_failed(source, monkeypatch):
    ingests = Ingests(monkeypatch, fails=True)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(open_dataset, source)
        assert ingests.begun.wait(60)
        second = pool.submit(open_dataset, source, None, ingests.listen)
        with pytest.raises(DataError, match="the first one fails"):
            first.result(60)
        assert second.result(60).n_rows == 6
    assert ingests.count == 2


def test_what_is_there_is_not_waited_for(source, monkeypatch):
    data = open_dataset(source)
    monkeypatch.setattr(inputs, "waiting_for", None)
    assert open_dataset(source) == data


def test_the_cache_is_private(source, monkeypatch, tmp_path):
    monkeypatch.setenv("SVMSIEVE_CACHE", str(tmp_path / "new" / "cache"))
    open_dataset(source)
    assert cache_directory().stat().st_mode & 0o777 == 0o700


def test_a_cache_that_cannot_be_used_is_one_line(source, monkeypatch):
    monkeypatch.setenv("SVMSIEVE_CACHE", str(source))
    with pytest.raises(DataError, match=r"rows\.svm: cannot be used as cache \(.*\); name another folder in SVMSIEVE"):
        open_dataset(source)
