"""Certificates that do not read every row: as true as those that do, and with the same bits wherever they run."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pipeline
from pipeline.budget import KNOWN_VECTORS, project
from pipeline.cli import main
from pipeline.maths.estimate import KnownVectors, feature_weights, norms_of
from tests.worlds import (
    ReadOnce,
    check_certificate,
    check_counts,
    check_optimum,
    check_verdicts,
    plain_world,
    write_shards,
)

SETTINGS = {"epsilon": 0.01, "c_max": 3.0, "tol": 1e-4}


@pytest.fixture(scope="module")
def world():
    return plain_world(600, 12, seed=3)


@pytest.fixture(scope="module")
def data(world, tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("asleep") / "shards", world, [150, 220, 500])


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    return pipeline.fit_path(data, out=tmp_path_factory.mktemp("asleep") / "run", **SETTINGS)


def models(run):
    return {step.step: (step.w.tobytes(), step.alpha.tobytes(), step.verdicts.tobytes()) for step in run.steps}


def test_most_certificates_read_few_rows_and_all_of_them_hold(world, whole):
    reads = [step.read for step in whole.steps]
    assert reads[0] == 1.0
    assert np.mean(reads) < 0.6
    assert sum(0.0 < read < 0.5 for read in reads) > 20
    assert np.mean([step.passes for step in whole.steps[1:]]) < 0.8
    for step in map(ReadOnce, whole.steps):
        check_certificate(world, step, 1e-4)
        check_counts(world, step)
    for step in map(ReadOnce, whole.steps[::20]):  # the oracle takes a second for each
        check_optimum(world, step)
        check_verdicts(world, step.c, step.verdicts)


def test_reading_every_row_leads_to_the_same_path(world, data, whole):
    every = pipeline.fit_path(data, every_row=True, **SETTINGS)
    assert all(step.read == 1.0 and step.passes >= 1.0 for step in every.steps)
    assert abs(len(every.steps) - len(whole.steps)) <= 2
    for step, other in zip(whole.steps, every.steps, strict=False):
        assert step.c == pytest.approx(other.c, rel=0.05)
        best = max(step.dual, world.dual(other.alpha * min(1.0, step.c / other.c)))
        assert best <= world.primal(step.w, step.c) <= best / (1 - 1.1e-4) or step.c != other.c


@pytest.mark.parametrize("scheduler", ["inline", "processes"])
def test_the_same_bits_on_every_backend(data, whole, scheduler):
    run = pipeline.fit_path(data, scheduler=scheduler, workers=2, **SETTINGS)
    assert models(run) == models(whole)
    assert [step.read for step in run.steps] == [step.read for step in whole.steps]


@pytest.mark.parametrize("place", ["after a full look", "the next", "before a full look"])
def test_a_run_goes_on_to_the_same_bits(data, whole, tmp_path, monkeypatch, place):
    reads = [step.read for step in whole.steps]
    looks = [k for k in range(5, len(reads) - 5) if reads[k] == 1.0 and reads[k + 1] < 1.0 and reads[k - 1] < 1.0]
    steps = looks[1] + {"after a full look": 1, "the next": 2, "before a full look": 0}[place]
    ended = []

    def listen(event):
        if getattr(event, "done", False):
            ended.append(event)
            if len(ended) == steps:
                raise KeyboardInterrupt

    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        pipeline.fit_path(data, out=folder, listen=listen, **SETTINGS)
    assert len((folder / "steps.jsonl").read_text().splitlines()) == steps
    run = pipeline.fit_path(data, out=folder, **SETTINGS)
    assert models(run) == models(whole)
    assert [step.read for step in run.steps] == reads


def test_a_rule_that_proves_nothing_reads_as_little(data):
    run = pipeline.fit_path(data, epsilon=0.01, rule="none", scheduler="inline")
    assert min(step.read for step in run.steps) < 0.5
    assert {step.survivors for step in run.steps} == {run.steps[0].n_rows}


def test_rows_left_out_are_always_read(world, data):
    run = pipeline.fit_path(data, holdout=0.2, **SETTINGS)
    for step in run.steps[1:]:
        assert step.read > 0.15
        assert step.scores is not None
    every = pipeline.fit_path(data, holdout=0.2, every_row=True, **SETTINGS)
    first, second = ([step.scores["accuracy"] for step in each.steps[:3]] for each in (run, every))
    assert first == pytest.approx(second, abs=0.02)


def test_estimates_bound_what_they_estimate():
    rng = np.random.default_rng(0)
    for _ in range(200):
        z = rng.standard_normal((30, 6)) * 10.0 ** rng.uniform(-3, 3, 6)
        vectors = rng.standard_normal((3, 6)) * 10.0 ** rng.uniform(-3, 3)
        v = rng.standard_normal(3) @ vectors + 0.01 * rng.standard_normal(6)
        weights, known = feature_weights((z**2).sum(axis=0), 30), KnownVectors()
        for each in vectors:
            known = known.extended(known.measured(each, weights), z @ each, len(known.vectors))
        found = known.estimate(known.measured(v, weights), weights, 3)
        norms, weighted = np.linalg.norm(z, axis=1), np.linalg.norm(z / weights, axis=1)
        off = np.abs(sum(a * p for a, p in zip(found.coefficients, known.products, strict=True)) - z @ v)
        rounding = 1e-12 * norms * (found.size + found.norm)
        assert (off <= norms * found.apart + rounding).all()
        assert (off <= weighted * found.weighted + rounding).all()
        assert found.apart <= 0.01 * np.sqrt(6) * 4  # what v is off the plane of the three


def test_norms_beyond_the_range_are_infinite_and_never_too_small():
    ones = np.ones(3)
    assert norms_of(np.zeros(3), ones) == (0.0, 0.0)
    assert norms_of(np.full(3, 1e-200), ones) == (np.inf, np.inf)
    assert norms_of(np.full(3, 1e200), ones) == (np.inf, np.inf)
    assert norms_of(np.array([3.0, 4.0, 0.0]), ones)[0] >= 5.0


def test_what_is_known_of_rows_is_projected_or_left_out():
    plenty, little = (project(10**6, 10**6, budget, reads_less=True) for budget in (4 * 10**9, 5 * 10**8))
    assert plenty.reads_less
    assert plenty.vectors - project(10**6, 10**6, 4 * 10**9).vectors == KNOWN_VECTORS * 8 * 10**6
    assert not little.reads_less
    assert little == project(10**6, 10**6, 5 * 10**8)


def test_the_command_can_read_every_row(data, tmp_path):
    settings = ("--epsilon", "0.1", "--c-max", "1", "--every-row", "-q")
    with pytest.raises(SystemExit) as ended:
        main(["path", data.path, "--out", str(tmp_path / "run"), *settings])
    assert not ended.value.code
    lines = (tmp_path / "run" / "steps.jsonl").read_text().splitlines()
    assert all(json.loads(line)["read"] == 1.0 for line in lines)
