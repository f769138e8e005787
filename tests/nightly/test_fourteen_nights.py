"""Fourteen nights in small: new rows, retired rows, a corrupt file, a night without files, a night that is killed."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

from tests.bench.nights import CORRUPT, KILLED, NIGHTS, Simulation


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fourteen_nights(tmp_path):
    rng = np.random.default_rng(0)
    x = sp.random_array((2840, 60), density=0.2, rng=rng, format="csr")
    y = np.where(x @ rng.standard_normal(60) + 0.2 * rng.standard_normal(2840) > 0, 1.0, -1.0)
    simulation = Simulation(tmp_path / "job", sp.csr_array(x), y, tol=1e-4, c_max=1.0, memory="1GB")
    nights = list(simulation.nights())  # stops where a certificate does not hold
    assert [night.status for night in nights] == ["published"] * NIGHTS
    assert {night.verified for night in nights} <= {2, 3}, "three C, or two where yesterday's best was the largest"
    assert nights[-1].rows == 2000 + 60 * (NIGHTS - 1) - 40 * NIGHTS
    assert min(night.settled for night in nights) > 0
    lines = [json.loads(line) for line in (tmp_path / "job/store/history.jsonl").read_text().splitlines()]
    assert [len(line["files"]["left_out"]) for line in lines] == [int(k == CORRUPT) for k in range(NIGHTS + 1)]
    assert len(list((tmp_path / "job/store/summaries").iterdir())) == NIGHTS + 1
    assert (tmp_path / "job/store/current").readlink().name == lines[-1]["night"]
    assert lines[KILLED]["night"].endswith("-12")
