"""What the tests stand on: their order, bytecode, the nursery of clusters, a disk that is not waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.clusters import started
from tests.conftest import LONG
from tests.nursery import Nursery

HERE = Path(__file__).parent


def test_the_long_files_are_there():
    assert [name for name in LONG if not (HERE / name).is_file()] == []


def test_who_is_started_keeps_the_bytecode_of_what_it_compiles():
    code = "import sys; print(sys.dont_write_bytecode)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (said.stdout, sys.dont_write_bytecode) == (b"False\n", False)


def test_a_nursery_says_how_its_processes_ended_and_takes_the_others_with_it(tmp_path):
    nursery = Nursery()
    with started(tmp_path, workers=1, nursery=nursery) as cluster:
        (worker,) = cluster.workers
        assert psutil.Process(worker.pid).ppid() == nursery.process.pid
        assert worker.poll() is None
        cluster.kill(worker)
        assert worker.poll() == -signal.SIGKILL
        scheduler = psutil.Process(cluster.scheduler.pid)
        cluster.processes.clear()  # whom the cluster does not end
        nursery.close()
        assert psutil.wait_procs([scheduler], timeout=60)[1] == []


def test_a_disk_that_is_not_waited_for_refuses_what_one_refuses(tmp_path):
    with (tmp_path / "file").open("wb") as stream:
        assert os.fsync(stream.fileno()) is None
        number = os.dup(stream.fileno())
    os.close(number)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fsync(number)
