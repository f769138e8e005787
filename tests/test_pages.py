"""The docstrings of the public API become pages, without a warning, and with every name."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import svmsieve
from pipeline import errors
from tests.test_cli import TOP


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    out = tmp_path_factory.mktemp("pages")
    where = {**os.environ, "PYTHONPATH": f"{TOP}:{TOP / 'pipeline' / 'public'}"}
    command = [sys.executable, "-W", "error", "-m", "tests.pages", str(out)]
    done = subprocess.run(command, cwd=TOP, env=where, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return out


def test_every_name_has_its_section(pages):
    page = (pages / "svmsieve.html").read_text()
    assert set(svmsieve.__all__) - {"errors"} <= set(re.findall(r'<section id="([^".]+)"', page))
    assert f'id="{errors.DataError.__name__}"' in (pages / "pipeline" / "errors.html").read_text()


@pytest.mark.parametrize("name", ["fit_path", "tune", "predict", "screen", "verify", "export", "ingest", "SieveSVC"])
def test_parameters_are_a_list(pages, name):
    (section,) = re.findall(rf'<section id="{name}">(.*?)</section>', (pages / "svmsieve.html").read_text(), re.DOTALL)
    assert re.search(r'<h6 id="parameters[^"]*">Parameters</h6>\s*<ul>\s*<li>', section)
