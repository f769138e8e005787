"""A far C in little memory: most rows may move, and a sixtieth of them fit together."""

from __future__ import annotations

import numpy as np
import pytest

import pipeline
from pipeline.budget import Projection
from pipeline.data.dataset import open_shards
from pipeline.data.registry.synthetic import make
from pipeline.engine.engine import Engine
from pipeline.passes.gather import gather
from pipeline.verify.verify import verify

ROWS, PART = 12_000, 60


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks") / "url"
    make("url-like", folder, 0.002, rows=ROWS)
    return open_shards(folder)


@pytest.fixture(autouse=True)
def little_memory(monkeypatch, url):
    limit = (8 * url.nnz + 64 * ROWS) // PART
    monkeypatch.setattr(Projection, "working_set", property(lambda self: limit))
    monkeypatch.setattr(Projection, "room", property(lambda self: int(2.5 * limit)))


@pytest.fixture(scope="module", params=["as they come", "one class after the other"])
def data(request, url):
    if request.param == "as they come":
        return url
    with Engine("inline") as engine:
        found = gather(engine, url, np.ones(ROWS, np.bool_))
    order = np.argsort(found.labels, kind="stable")
    return pipeline.dataset_of(found.x.scipy()[order], found.labels[order])


def test_few_reads_of_the_data(data, tmp_path):
    """10.5 reads; 39 where blocks are consecutive rows, the same ones in every cycle."""
    grid = {"grid": (10.0, 40.0, 160.0), "grid_in_c_min": True, "tol": 1e-3}
    run = pipeline.fit_path(data, out=tmp_path / "run", scheduler="inline", **grid)
    assert run.steps[0].working_set == ROWS
    assert all(step.working_set > 3 * ROWS / PART for step in run.steps)
    assert all(step.relative_gap <= 1e-3 for step in run.steps)
    assert sum(step.passes for step in run.steps) < 13, [step.passes for step in run.steps]
    with Engine("inline") as engine:
        assert all(found.holds for found in verify(engine, tmp_path / "run", data))
