"""The examples run as a reader would run them, and say what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters import AT_REST
from tests.test_readme import environment

EXAMPLES = Path(__file__).with_name("examples")
PROMISED = {
    "table_to_nightly.sh": (
        r"2026-03-03: published, 4,500 rows",
        r"predictions\.csv: 1,500 rows",
        r"\+[\d.]+  leaves\.hour=",
    ),
    "text_on_dask.py": (r"C = \S+, relative gap \S+, 3,000 rows", r"accuracy on new documents: 0\.9"),
    "kernel_path.py": (r"best: C = \S+, accuracy 0\.9", r"SieveSVC: \d+ support rows", r"certified: \d\.\de-0[5-9]"),
}


def test_all_examples_are_run():
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == set(PROMISED)


# Workers of a cluster on this machine: forked from a process that has Dask, as spawned ones import it, and at rest
DASK = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver"} | AT_REST


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISED)
def test_an_example(tmp_path, name):
    path = f"{tmp_path / '.venv' / 'bin'}:{os.environ['PATH']}"
    shell = ["bash"] if name.endswith(".sh") else [sys.executable, "-W", "error::UserWarning"]
    with environment(tmp_path, command=name.endswith(".sh")) as where:
        done = subprocess.run(
            [*shell, str(EXAMPLES / name)],
            cwd=tmp_path,
            env={**where, **DASK, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    for line in PROMISED[name]:
        assert re.search(line, done.stdout), done.stdout
