"""``import svmsieve``: quick, and with every name that it promises."""

from __future__ import annotations

import sys

import pytest

import pipeline
import svmsieve
from tests.test_startup import cpu_seconds, loaded

PROMISED = ("fit_path", "tune", "open_dataset", "ingest", "predict", "screen", "verify", "export", "Run", "errors")


def test_the_import_is_light():
    assert loaded("import sys; sys.path.append('pipeline/public'); import svmsieve; dir(svmsieve)") == []


def test_the_import_is_quick():
    code = "import sys; sys.path.append('pipeline/public'); import svmsieve"
    assert min(cpu_seconds(sys.executable, "-c", code) for _ in range(3)) < 0.2


def test_all_names_are_there():
    assert set(PROMISED) | {"SieveSVC", "SieveSVCCV", "sieve_svc_path"} <= set(svmsieve.__all__)
    for name in svmsieve.__all__:
        assert getattr(svmsieve, name).__doc__
        assert name in dir(svmsieve)
    assert set(svmsieve.__all__) == {*svmsieve._HOME, "errors"}
    assert svmsieve.__version__ == pipeline.__version__
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = svmsieve.nothing
