"""One thread, in libraries that are loaded in the middle of a run, too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """{before}
import sys, numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from pipeline.blas import dposv, one_thread
def threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}
threadpool_limits(limits=3)
assert not any("scipy.linalg" in name for name in sys.modules), "loaded too soon for this test"
with one_thread():
    matrix = np.eye(3)
    dposv()(matrix, np.ones(3))
    assert threads() == {1}, threads()
    with one_thread():
        dposv()(matrix, np.ones(3))
    assert threads() == {1}, threads()
assert 1 not in threads(), threads()
"""

RUN = """
import numpy as np, svmsieve
from threadpoolctl import threadpool_info
seen = set()
def listen(event):
    seen.update(info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas")
x = np.random.default_rng(0).standard_normal((80, 3))
for kernel in ("linear", "rbf"):
    svmsieve.fit_path(x, x[:, 0] > 0, grid=[0.1, 1.0], kernel=kernel, scheduler="inline", listen=listen)
assert seen == {1}, seen
"""

# a SciPy whose compiled modules are not where they always were
OTHERWISE = "import pipeline.blas\npipeline.blas.PathFinder = type('', (), {'find_spec': lambda *_: None})"


@pytest.mark.parametrize("before", ["", OTHERWISE])
def test_a_library_that_comes_late_has_one_thread_until_the_scope_ends(before):
    made = subprocess.run(
        [sys.executable, "-c", CODE.replace("{before}", before)],
        capture_output=True,
        text=True,
        check=False,
        env={"OPENBLAS_NUM_THREADS": "3", "PATH": ""},
    )
    assert made.returncode == 0, made.stderr


def test_a_run_has_one_thread_in_a_process_that_has_more():
    where = {"OPENBLAS_NUM_THREADS": "3", "PYTHONPATH": os.pathsep.join(sys.path), "PATH": ""}
    made = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=False, env=where)
    assert made.returncode == 0, made.stderr
