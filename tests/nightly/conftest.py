"""Jobs: a new one, and one after its first night, which is made once a module and copied."""

from __future__ import annotations

import pytest

from tests.nightly.nights import Nightly, after_first_night, copied


@pytest.fixture(scope="module")
def job_kind():
    """The class of the jobs; a module may have one of its own."""
    return Nightly


@pytest.fixture
def nightly(job_kind, tmp_path):
    return job_kind(tmp_path)


@pytest.fixture(scope="module")
def first(job_kind, tmp_path_factory):
    return after_first_night(job_kind(tmp_path_factory.mktemp("first")))


@pytest.fixture
def begun(first, tmp_path):
    return copied(first, tmp_path / "job")
