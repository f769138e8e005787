"""Kill random workers of a cluster throughout a run, again and again: replacements join, every certificate holds."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

from pipeline.data.dataset import Dataset
from pipeline.engine.engine import Engine
from pipeline.path.train import train_run
from pipeline.spec import PathSpec
from pipeline.verify.verify import verify
from tests.clusters import RealCluster


class Killer(threading.Thread):
    """Kills so many workers, each at a random moment after the replacement of the last one has joined."""

    def __init__(self, cluster: RealCluster, most: int, chance: random.Random, pause: float) -> None:
        super().__init__(daemon=True)
        self.cluster, self.most, self.chance, self.pause = cluster, most, chance, pause
        self.kills = 0
        self.enough = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            while self.kills < self.most and not self.enough.wait(self.chance.uniform(0.0, 2 * self.pause)):
                self.cluster.kill(self.chance.choice(self.cluster.workers))
                self.kills += 1
                self.cluster.add_worker()
        except BaseException as error:  # told to the thread that waits
            self.failed = error

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.enough.set()
        self.join()
        assert self.failed is None, self.failed


def soak(
    cluster: RealCluster,
    data: Dataset,
    settings: dict[str, Any],
    folder: Path,
    kills: int,
    chance: random.Random,
    pause: float = 1.0,
) -> tuple[int, list[Path]]:
    """Train and verify, again and again, until so many workers were killed; return how many were, and the runs."""
    runs: list[Path] = []
    with Engine(cluster.address) as engine, Killer(cluster, kills, chance, pause) as killer:
        while killer.kills < kills:
            run = train_run(engine, data, PathSpec(**settings), folder / str(len(runs)))
            found = verify(engine, run.path, data)
            assert len(found) == len(run.steps)
            assert all(finding.holds for finding in found)
            runs.append(run.path)
    return killer.kills, runs
