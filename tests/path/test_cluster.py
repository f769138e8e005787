"""The path on a real TLS cluster: the bits of one machine, whatever happens to workers, scheduler and client."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.data.dataset import open_shards
from pipeline.data.registry.synthetic import make
from pipeline.engine import connection
from pipeline.engine.engine import Engine
from pipeline.errors import EngineError
from pipeline.events import StepProgress
from pipeline.path.fit import fit_path
from pipeline.path.train import train_run
from pipeline.spec import PathSpec
from pipeline.verify.verify import verify
from tests.clusters import Deaths, real_cluster, until
from tests.kernel_worlds import plain_kernel_world
from tests.soak import soak
from tests.worlds import write_shards

ROOT = Path(__file__).parents[2]
SETTINGS = {"epsilon": 0.05, "c_max": 0.1, "tol": 1e-3, "memory": 2_000_000_000}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """url-like at scale 0.01 in a dozen shards."""
    folder = tmp_path_factory.mktemp("url") / "shards"
    make("url-like", folder, 0.01, shard_bytes=2_000_000)
    return open_shards(folder)


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """The models of the run on one machine."""
    return models(fit_path(data, out=tmp_path_factory.mktemp("one") / "run", **SETTINGS).path)


@pytest.fixture
def cluster(running):
    """A cluster of three workers, whatever earlier tests did to it."""
    running.have_workers(3)
    return running


def models(run: Path) -> list[bytes]:
    """Return the bytes of every model of a run."""
    found = [path.read_bytes() for path in sorted((run / "models").glob("*.npz"))]
    assert len(found) > 5
    return found


def test_a_worker_killed_during_the_path_changes_no_bit(data, undisturbed, cluster, tmp_path, monkeypatch):
    """One of three workers is killed with tasks on it, another between two steps."""
    with Engine(cluster.address) as engine:
        deaths = Deaths(cluster, engine, monkeypatch, task=25)
        run = train_run(engine, data, PathSpec(**SETTINGS), tmp_path / "run", listen=deaths.listen)
        assert models(run.path) == undisturbed
        assert deaths.tasks > 25
        assert deaths.steps > 5
        assert len(cluster.workers) == 1
        assert all(finding.holds for finding in verify(engine, run.path, data))


def test_the_path_survives_random_kills(data, undisturbed, cluster, tmp_path):
    kills, runs = soak(cluster, data, SETTINGS, tmp_path / "runs", kills=3, chance=random.Random(0))
    assert kills == 3
    assert all(models(run) == undisturbed for run in runs)


def test_the_run_goes_on_with_a_new_scheduler(data, undisturbed, tmp_path, monkeypatch, nursery):
    monkeypatch.setattr(connection, "SECONDS_TO_CONNECT", 1.0)
    with real_cluster(tmp_path / "cluster", workers=1, nursery=nursery) as cluster:

        def kill_scheduler(event) -> None:
            if getattr(event, "done", False) and event.step == 3:
                cluster.scheduler.kill()

        with pytest.raises(EngineError, match="is gone; start it and run the same command again"):
            fit_path(data, out=tmp_path / "run", scheduler=cluster.address, listen=kill_scheduler, **SETTINGS)
        cluster.start_scheduler()
        cluster.add_worker()
        run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, **SETTINGS)
        assert models(run.path) == undisturbed


def test_the_run_goes_on_after_its_client_was_killed(data, undisturbed, cluster, tmp_path):
    options = ["--epsilon", "0.05", "--c-max", "0.1", "--tol", "1e-3", "--memory", "2GB", "--scheduler"]
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", "path", data.path]
    command += ["--out", str(tmp_path / "run"), *options, cluster.address]
    environment = os.environ | cluster.environment() | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            written = (tmp_path / "run" / "models").glob
            until(lambda: len(list(written("*.npz"))) >= 2 or process.poll() is not None)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == -9
    assert not (tmp_path / "run" / "run.json").read_text().count('"finished"')
    done = subprocess.run([*command, "-q"], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert models(tmp_path / "run") == undisturbed


@pytest.mark.parametrize("memory", ["2GB", "440MB"])  # all columns are kept, and few are: rows are woken one by one
def test_a_kernel_has_the_same_bits_on_a_cluster_that_loses_a_worker(cluster, tmp_path, memory):
    world = plain_kernel_world(2600, 3, seed=1)
    rows = write_shards(tmp_path / "shards", world, range(200, 2600, 200))
    settings = {"kernel": "rbf", "gamma": 0.5, "grid": [0.003 * 2**k for k in range(7)], "tol": 1e-3, "memory": memory}
    expected = models(fit_path(rows, out=tmp_path / "one", **settings).path)
    steps = 0

    def listen(event) -> None:
        nonlocal steps
        if getattr(event, "done", False):
            steps += 1
            if steps == 3:
                cluster.kill(cluster.workers[0])

    run = fit_path(rows, out=tmp_path / "run", scheduler=cluster.address, listen=listen, **settings)
    assert models(run.path) == expected
    assert steps == 7


class TestBatch:
    """Folds that are trained together on a cluster."""

    CV = SETTINGS | {"cv": 2, "grid": [0.001, 0.003, 0.01, 0.03]}
    CV.pop("epsilon")

    @staticmethod
    def all_models(run: Path) -> dict[str, bytes]:
        return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*.npz"))}

    @pytest.fixture(scope="class")
    @classmethod
    def here(cls, data, tmp_path_factory):
        return cls.all_models(fit_path(data, out=tmp_path_factory.mktemp("here") / "run", **cls.CV).path)

    @pytest.mark.parametrize("solve_on", ["client", "worker"])
    def test_the_same_bits(self, data, here, cluster, tmp_path, solve_on):
        run = fit_path(data, out=tmp_path / "run", scheduler=cluster.address, solve_on=solve_on, **self.CV)
        assert len(here) == 12
        assert self.all_models(run.path) == here

    @pytest.mark.parametrize("solve_on", ["client", "worker"])
    def test_a_worker_killed_on_the_way_changes_no_bit(self, data, here, cluster, tmp_path, solve_on):
        steps = 0

        def kill(event):
            nonlocal steps
            steps += isinstance(event, StepProgress) and event.done
            if steps == 5:
                steps += 1
                cluster.kill(cluster.workers[0])

        settings = self.CV | {"scheduler": cluster.address, "solve_on": solve_on, "listen": kill}
        assert self.all_models(fit_path(data, out=tmp_path / "run", **settings).path) == here
