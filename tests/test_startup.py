"""What starting costs: ``import pipeline``, the command's help, and a run load what they need and no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import pipeline
from pipeline.cli import app

HEAVY = ("numpy", "scipy", "numba", "pyarrow", "pandas", "sklearn", "dask", "distributed", "fsspec", "yaml", "rich")
LIGHT = ("pipeline", "pipeline.cli", "pipeline.spec", "pipeline.events", "pipeline.errors", "pipeline.cli.options")


NOT_FOR_SHARDS = ("pandas", "sklearn", "dask", "distributed", "fsspec", "pyarrow.csv", "pyarrow.parquet")
NOT_FOR_COMPILED = ("numba", "cffi", "sparse", "http.client")


def loaded(code, heavy=HEAVY):
    """Run code in a fresh process; return the heavy packages that it has loaded."""
    tail = f"\nimport json, sys\nprint(json.dumps([name for name in {heavy!r} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def cpu_seconds(*command):
    """Run a command in a fresh process; return its CPU seconds, user and system."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("module", LIGHT)
def test_what_only_names_things_is_light(module):
    assert loaded(f"import {module}") == []


def test_help_is_light():
    help_of_all = "\n".join(
        [
            "from pipeline.cli import _run",
            *(f"assert _run({words!r}) == 0" for words in (["--help"], *([name, "--help"] for name in app.commands))),
        ]
    )
    assert loaded(help_of_all) == []


def test_help_is_quick():
    # 0.12 s on the machine that wrote this, 0.2 s is the aim, 0.6 to 1.0 s is what NumPy, Numba and Arrow cost; the
    # least of a few, for other processes make one slower and none makes it quicker.
    for code in ("import pipeline.cli", "from pipeline.cli import main; main(['--help'])"):
        assert min(cpu_seconds(sys.executable, "-c", code) for _ in range(3)) < 0.4


@pytest.fixture
def shards(tmp_path):
    rows = [f"{1 if k % 3 else -1} 1:{k % 7}.5 2:{k % 5 - 2}.25 3:1" for k in range(60)]
    (tmp_path / "rows.svm").write_text("\n".join(rows) + "\n")
    pipeline.ingest([str(tmp_path / "rows.svm")], str(tmp_path / "shards"), pipeline.IngestSpec())
    return str(tmp_path / "shards")


def test_a_run_over_shards_loads_neither_readers_of_files_nor_clusters(tmp_path, shards):
    run = str(tmp_path / "run")
    path = ["path", shards, "--grid", "0.01,1", "--out", run]
    for words in (path, ["verify", run, shards]):
        assert loaded(f"from pipeline.cli import _run\nassert _run({words!r}) == 0", NOT_FOR_SHARDS) == []
    words = ["predict", run, shards, "--c", "1", "--out", str(tmp_path / "predictions.parquet")]
    assert loaded(f"from pipeline.cli import _run\nassert _run({words!r}) == 0", NOT_FOR_SHARDS) == ["pyarrow.parquet"]


@pytest.mark.parametrize("solver", ["dcd", "newton"])
def test_a_run_with_compiled_kernels_loads_neither_numba_nor_http(tmp_path, shards, solver):
    found = []
    for name in ("first", "second"):  # the first one may compile
        words = ["path", shards, "--grid", "0.01,1", "--solver", solver, "--out", str(tmp_path / name)]
        found = loaded(f"from pipeline.cli import _run\nassert _run({words!r}) == 0", NOT_FOR_COMPILED)
    assert found == []


def test_the_command_keeps_blas_from_making_threads_that_runs_do_not_use(tmp_path, shards, monkeypatch):
    words = ["path", shards, "--grid", "0.01", "--out", str(tmp_path / "run")]
    code = (
        "import pipeline.cli as cli\ncli.told.leave = lambda *how: None\n"
        f"cli.main({words!r})\nfrom threadpoolctl import threadpool_info\n"
        "assert {each['num_threads'] for each in threadpool_info() if each['user_api'] == 'blas'} == {1}"
    )
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_command_loads_its_own_module_only():
    code = "import sys\nfrom pipeline.cli import app\napp.commands['export']\nassert 'pipeline.cli.{}' {} sys.modules"
    assert loaded(code.format("export", "in")) == []
    assert loaded(code.format("nightly", "not in")) == []


def test_every_command_is_under_its_name():
    for name, command in app.commands.items():
        assert command.name == name


def test_names_that_are_loaded_later_are_listed():
    assert set(pipeline.__all__) <= set(dir(pipeline))
    assert "__version__" in dir(pipeline)
    assert pipeline.__version__.count(".") == 2
