"""The Dockerfile's steps, done in a fresh venv; what comes out is run."""

from __future__ import annotations

import json

import pytest

from tests.deploy.dockerfile import Replay


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_replay(tmp_path):
    replay = Replay(tmp_path)
    replay.build()
    assert replay.run("--version").stdout.startswith("svmsieve, version ")
    assert "Commands:" in replay.run().stdout
    assert not (replay.root / "opt/svmsieve/bin/pip").exists()
    assert replay.notes.read_text().split()[0] == "useradd"

    options = ("--grid", "0.001", "--tol", "1e-2", "--rule", "none", "--solver", "liblinear")  # little to compile
    trained = replay.run("path", "breast_cancer", "--out", "run", *options)
    assert trained.returncode == 0, trained.stderr
    assert json.loads((replay.root / "data/run/run.json").read_text())
    assert any((replay.root / "var/cache/svmsieve/numba").iterdir())
