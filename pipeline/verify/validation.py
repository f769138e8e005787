"""The scores of models on validation data, as ``verify`` needs them: margins, and what float64 can do to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.data.dataset import Dataset, Shard
from pipeline.dataclass import dataclass
from pipeline.engine.engine import Engine
from pipeline.errors import RunError
from pipeline.events import silent
from pipeline.scoring.linear_model import trained_on
from pipeline.verify import twofold
from pipeline.verify.calibration import LeftOutRows
from pipeline.verify.held_out import HeldOutRows
from pipeline.verify.judge_rows import EPS
from pipeline.verify.kernel_validation import Margins, kernel_validation
from pipeline.verify.recompute import without_empty_columns
from pipeline.verify.said import SaidRun
from pipeline.verify.scores import wrong_score
from pipeline.verify.stored_model import Model
from pipeline.verify.tally import BATCH_BYTES, columns


@dataclass(frozen=True)
class Validation:
    """The data that a run was scored on."""

    engine: Engine
    data: Dataset

    def check(self, run: SaidRun) -> None:
        """Raise RunError if the run was scored on other data."""
        if run.header["data"].get("validation") != self.data.fingerprint:
            raise RunError(f"{run.path}: was not scored on {self.data.path}; give the data of path --validation")

    def wrong_scores(
        self,
        run: SaidRun,
        trained: Dataset,
        models: Mapping[int, Model],
        class_weights: tuple[float, float],
        takers: Sequence[HeldOutRows | LeftOutRows],
    ) -> dict[int, str]:
        """Return what is wrong with the scores of which step, given the models of some; takers are shown all scores."""
        size = max(1, BATCH_BYTES // (8 * (6 * self.data.n_rows + 2 * trained.n_rows + 3 * self.data.n_features)))
        found: dict[int, str] = {}
        costs = stored_costs(self.engine, self.data)
        for first in range(0, len(models), size):
            some = list(models)[first : first + size]
            parts = self.margins(run, trained, [models[n] for n in some])
            f, doubt, labels = (np.concatenate([part[k] for part in parts]) for k in range(3))
            for k, n in enumerate(some):
                said, select = run.steps[n].facts.get("scores"), run.spec.select
                weighed = costs * np.where(labels > 0, class_weights[1], class_weights[0])
                problem = wrong_score(said, f[:, k], doubt[:, k], labels, select, weighed)
                for taker in takers:
                    taker.take(models[n].c, f[:, k], doubt[:, k], labels)
                found |= {n: problem} if problem else {}
        return found

    def margins(self, run: SaidRun, trained: Dataset, models: list[Model]) -> list[Margins]:
        """Return margins, what float64 can do to each, and labels of the rows, part after part."""
        if run.spec.kernel == "linear":
            dense = columns([model.w for model in models], trained.n_features)
            w = [trained_on(trained, run.path, 0.0, x).weights_on(self.data) for x in dense.T]
            return list(self.engine.stream(_shard_margins, self.data.shards, np.stack(w, axis=1)))
        model = trained_on(trained, run.path, 0.0, np.zeros(trained.n_features))
        alpha = columns([each.alpha for each in models], trained.n_rows)
        return kernel_validation(self.engine, self.data, trained, run.spec, model.places_on(self.data, silent), alpha)


def stored_costs(engine: Engine, data: Dataset) -> np.ndarray:
    """Return the costs of all rows, as they are stored."""
    return np.concatenate(list(engine.stream(_shard_costs, data.shards)))


def _shard_costs(shard: Shard) -> np.ndarray:
    return np.array(shard.load().costs)


def _shard_margins(shard: Shard, w: np.ndarray) -> Margins:
    rows = shard.load()
    x, features = without_empty_columns(rows.csr())
    high, low, size = (np.zeros((shard.n_rows, w.shape[1])) for _ in range(3))
    twofold.products((x.indptr, x.indices, x.data, rows.labels.astype(np.float64)), w[features], high, low, size)
    with np.errstate(over="ignore", invalid="ignore"):  # an absurd w is a finding, not a warning
        return high + low, EPS * (np.diff(x.indptr) + 2.0)[:, None] * size, np.array(rows.labels)
