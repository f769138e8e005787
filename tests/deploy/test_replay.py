"""The Dockerfile's steps, done in a fresh venv; what comes out is run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import pipeline
from tests.deploy.replay import Replay

ONE_TO_COMPILE = "pipeline.data.shards.digest._feature_hashes-"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_dockerfile_makes_something_that_trains(tmp_path):
    replay = Replay(tmp_path)
    replay.build()
    assert replay.run("--version").stdout.startswith("svmsieve, version ")
    assert "Train:" in replay.run().stdout
    assert not (replay.image / "opt/svmsieve/bin/pip").exists()
    assert [line.split()[0] for line in replay.notes.read_text().splitlines()] == ["useradd", "chown"]

    # What was compiled here so far is as good there, and compiling takes longest; one kernel is left to it at least.
    kernels = replay.image / "var/cache/svmsieve/numba"
    kernels.mkdir()
    for kernel in (Path(pipeline.__file__).parent / "__pycache__").glob("*.kernel"):
        if not kernel.name.startswith((".", ONE_TO_COMPILE)):
            shutil.copy(kernel, kernels)
    little_to_compile = ("--grid", "0.001", "--tol", "1e-2", "--rule", "none", "--solver", "liblinear")
    trained = replay.run("path", "breast_cancer", "--out", "run", *little_to_compile)
    assert trained.returncode == 0, trained.stderr
    assert json.loads((replay.image / "data/run/run.json").read_text())["status"] == "finished"
    assert any(kernels.glob(f"{ONE_TO_COMPILE}*"))
