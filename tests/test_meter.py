"""The meter counts what the system cannot take back: of this process and of its children, whenever they began."""

from __future__ import annotations

import mmap
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil

from pipeline import meter
from pipeline.meter import MemoryMeter, anonymous
from tests.clusters import until
from tests.watched import _anonymous

MUCH = 64 << 20
CHILD = "held = bytes([1]) * (64 << 20); print(flush=True); input()"


@contextmanager
def child():
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


LOOKS = """
import sys
import numpy as np
import psutil
from pipeline.meter import anonymous
looks = [anonymous(psutil.Process())]
mapped = np.memmap(sys.argv[1], mode="r")
assert mapped.sum() == 0
looks.append(anonymous(psutil.Process()))
array = np.ones(int(sys.argv[2]) // 8)
looks.append(anonymous(psutil.Process()))
print(*looks)
"""


def test_arrays_count_and_mapped_files_do_not(tmp_path):
    """In a process of its own: one that has run other tests gives memory back when it likes."""
    path = tmp_path / "file"
    path.write_bytes(bytes(MUCH))
    done = subprocess.run([sys.executable, "-c", LOOKS, str(path), str(MUCH)], capture_output=True, check=True)
    before, mapped, held = map(int, done.stdout.split())
    assert mapped < before + MUCH // 4
    assert before + MUCH <= held < before + 1.25 * MUCH


def test_it_is_what_the_kernel_calls_anonymous():
    """Of a process that stands still, but for the few pages that the kernel may move between two readings."""
    with child() as process:
        ours, kernels = anonymous(psutil.Process(process.pid)), _anonymous(process.pid)
        assert abs(ours - kernels) <= 16 * mmap.PAGESIZE
        assert kernels > MUCH
    assert anonymous(psutil.Process()) > 0


def test_a_child_that_began_later_counts_and_one_that_ended_is_no_error(monkeypatch):
    monkeypatch.setattr(meter, "SHARE_FOR_CHILDREN", 1.0)
    with MemoryMeter() as meter_:
        alone = meter_.look()
        with child():
            until(lambda: meter_.peak > alone + MUCH, "the child is not found")
        peak = meter_.peak
        assert meter_.look() == peak


def test_finding_children_takes_its_share_of_the_time_and_no_more(monkeypatch):
    searches = []

    def slow():
        searches.append(time.monotonic())
        time.sleep(0.01)
        return [psutil.Process()]

    monkeypatch.setattr(meter, "_family", slow)
    monkeypatch.setattr(meter, "SHARE_FOR_CHILDREN", 0.05)
    found = MemoryMeter()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        found.look()
    assert 2 <= len(searches) <= 3
    assert found.peak > 0
