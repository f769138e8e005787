"""Cores that are lent: they are used in that scope only, by that thread only, and change nothing but time."""

from __future__ import annotations

import threading
import time

from pipeline.cores import each, lending, lent_cores


def test_results_are_in_order_whoever_is_done_first():
    def late(k: int) -> int:
        time.sleep(0.01 * (4 - k))
        return k * k

    with lending(lambda: 3):
        assert each(late, range(5)) == [0, 1, 4, 9, 16]


def test_cores_are_lent_to_a_thread_as_long_as_a_scope_lasts():
    assert lent_cores() == 1
    here, found = threading.current_thread(), []
    with lending(lambda: 4):
        threads = each(lambda _: threading.current_thread(), range(4))
        assert here not in threads
        thread = threading.Thread(target=lambda: found.append(lent_cores()))
        thread.start()
        thread.join()
        assert (lent_cores(), found) == (4, [1])
    assert lent_cores() == 1
    assert each(lambda _: threading.current_thread(), range(4)) == [here] * 4
