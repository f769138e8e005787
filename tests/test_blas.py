"""One thread, in libraries that are loaded in the middle of a run, too."""

from __future__ import annotations

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
