"""The Dockerfile's steps, done in a fresh venv; what comes out is run."""

from __future__ import annotations

import json

import pytest

from tests.deploy.replay import Replay


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_dockerfile_makes_something_that_trains(tmp_path):
    replay = Replay(tmp_path)
    replay.build()
    assert replay.run("--version").stdout.startswith("svmsieve, version ")
    assert "Train:" in replay.run().stdout
    assert not (replay.image / "opt/svmsieve/bin/pip").exists()
    assert [line.split()[0] for line in replay.notes.read_text().splitlines()] == ["useradd", "chown"]

    little_to_compile = ("--grid", "0.001", "--tol", "1e-2", "--rule", "none", "--solver", "liblinear")
    trained = replay.run("path", "breast_cancer", "--out", "run", *little_to_compile)
    assert trained.returncode == 0, trained.stderr
    assert json.loads((replay.image / "data/run/run.json").read_text())["status"] == "finished"
    assert any((replay.image / "var/cache/svmsieve/numba").iterdir())
