"""Small runs for tests of what is done with a finished run: rows as plain arrays, as data and as a model of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pipeline.cli import main
from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.ingest.ingest import IngestSpec, ingest
from pipeline.data.reading.base import ReadOptions
from pipeline.data.reading.block import ReadRules
from pipeline.data.reading.labels import LabelMap
from pipeline.path.fit import fit_path
from pipeline.runs.feature_names import FeatureNames
from pipeline.runs.run import Run
from pipeline.scoring.linear_model import LinearModel
from tests.formats import Table, write_csv, write_svmlight

GRID = (0.01, 0.1, 1.0)


def sparse_rows(n: int = 60, d: int = 12, seed: int = 0, labels: tuple = (0, 1)) -> Table:
    """Rows with a few nonzeros each, some with none, whose label is a noisy linear function of them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)
    positive = x @ np.linspace(-1, 1, d) + 0.3 * rng.standard_normal(n) > 0.2
    return Table(x, np.array(labels)[positive.astype(int)], np.ones(n))


def shards_of(folder: Path, table: Table, rows_per_shard: int = 17, features: int | None = None, **spec) -> Dataset:
    """Ingest rows; labels that are text travel by CSV."""
    write = write_csv if table.y.dtype.kind == "U" else write_svmlight
    source = write(folder / ("rows.csv" if write is write_csv else "rows.svm"), table)
    reading = ReadOptions(rules=ReadRules(features=features or table.x.shape[1]))
    ingest([str(source)], folder / "shards", IngestSpec(reading, rows_per_shard=rows_per_shard, overwrite=True, **spec))
    return open_shards(folder / "shards")


@dataclass(frozen=True)
class Trained:
    """Rows, the same as a data set, and a run on them."""

    table: Table
    data: Dataset
    run: Run

    def dense_scores(self, w: np.ndarray) -> np.ndarray:
        """x_i . w with the bias column, by dense NumPy."""
        n = len(self.table.y)
        x = np.column_stack([self.table.x, np.full(n, self.data.bias)]) if self.data.bias else self.table.x
        return x @ w


def trained(folder: Path, labels: tuple = (0, 1), bias: float = 0.0, tol: float = 1e-4, **spec) -> Trained:
    """Rows and a run on all of them, scored on the very same, so that it has a best step."""
    table = sparse_rows(labels=labels)
    data = shards_of(folder, table, bias=bias, **spec)
    run = fit_path(data, out=folder / "run", grid=GRID, tol=tol, scheduler="inline", validation=data)
    return Trained(table, data, run)


def command(capsys, *arguments) -> tuple[int, str, str]:
    """Run svmsieve in this process; return (exit code, stdout, stderr)."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return stop.value.code or 0, out, err


def a_model(run: Path, w: np.ndarray, negative: tuple[str, ...], positive: tuple[str, ...]) -> LinearModel:
    """A linear model without a bias that nobody has trained."""
    names = FeatureNames(w.size, index_base=1)
    return LinearModel(run=run, c=1.0, labels=LabelMap(negative, positive), feature_names=names, bias=0.0, w=w)
