"""Probabilities on rows held out of everything, against scikit-learn's.

Ours: ``svmsieve tune SHARDS --calibration KIND`` on four fifths of the rows, ``svmsieve predict --probability`` on the
others: one model on all rows that were tuned on, and a sigmoid (or isotonic regression) of the scores of its folds.
Theirs: ``CalibratedClassifierCV(LinearSVC(loss="hinge", fit_intercept=False, C=the tuned one), method=KIND, cv=5)`` on
the same rows: the mean of five calibrated models. scikit-learn chooses no C here, and is given ours.

Reported for both: the Brier score mean (p - [y = 1])^2, the log-loss, and reliability: rows are put into ten bins of
equal count by p, and |mean p - share of y = 1| is averaged over the bins (``off``); ``--table`` prints them.

python -m tests.bench.calibration [--sets a9a ...] [--methods sigmoid isotonic] [--table] [--rows N]
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import LinearSVC

import pipeline
from tests.bench.many import Memory, arguments, command, open_memory
from tests.bench.measure import verdict

SETS = ("a9a", "census_income_kdd", "imdb50k_uni", "url-like")
BINS = 10


@dataclass(frozen=True)
class Judged:
    """How good probabilities are: ``table`` has mean p and share of positive rows by bin."""

    brier: float
    log_loss: float
    table: np.ndarray

    @classmethod
    def of(cls, p: np.ndarray, y: np.ndarray) -> Judged:
        is_positive = (y > 0).astype(np.float64)
        safe = np.clip(p, 1e-15, 1 - 1e-15)
        bins = np.array_split(np.argsort(p, kind="stable"), BINS)
        table = np.array([(p[some].mean(), is_positive[some].mean()) for some in bins])
        loss = -np.mean(is_positive * np.log(safe) + (1 - is_positive) * np.log1p(-safe))
        return cls(float(np.mean((p - is_positive) ** 2)), float(loss), table)

    @property
    def off(self) -> float:
        return float(np.abs(self.table[:, 0] - self.table[:, 1]).mean())

    def __str__(self) -> str:
        return f"Brier {self.brier:.4f}, log-loss {self.log_loss:.4f}, off by {self.off:.4f}"


def ours(rows: Memory, judges: Memory, method: str, folder: Path) -> tuple[Judged, float]:
    """Return how good our probabilities are, and the C that was tuned."""
    run, target = folder / "run", folder / "p.parquet"
    command("tune", rows.shards(folder / "rows"), "--calibration", method, "--out", run)
    command("predict", run, judges.shards(folder / "judges"), "--probability", "--out", target)
    p = pq.read_table(target)["probability"].to_numpy()
    return Judged.of(p, judges.y), pipeline.open_run(run).steps[0].c


def theirs(rows: Memory, judges: Memory, method: str, c: float) -> Judged:
    machine = LinearSVC(loss="hinge", fit_intercept=False, C=c, random_state=0)
    model = CalibratedClassifierCV(machine, method=method, cv=5).fit(rows.x, rows.y)
    return Judged.of(model.predict_proba(judges.x)[:, 1], judges.y)


def compare(name: str, method: str, folder: Path, options: argparse.Namespace) -> float:
    rows, judges = open_memory(name, options).split()
    folder.mkdir(parents=True)
    one, c = ours(rows, judges, method, folder)
    two = theirs(rows, judges, method, c)
    print(
        f"{name}, {method}, C = {c:.4g}, {judges.n:,} rows:\n  svmsieve      {one}\n  scikit-learn  {two}", flush=True
    )
    if options.table:
        for mine, other in zip(one.table, two.table, strict=True):
            print("  p {:.3f} positive {:.3f}    p {:.3f} positive {:.3f}".format(*mine, *other))
    return one.brier / two.brier


def main() -> None:
    parser = arguments(__doc__, SETS)
    parser.add_argument("--methods", nargs="+", choices=("sigmoid", "isotonic"), default=["sigmoid", "isotonic"])
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # that LinearSVC has not converged
    with tempfile.TemporaryDirectory(prefix="calibration-") as folder:
        tried = [(name, method) for name in options.sets for method in options.methods]
        ratios = {pair: compare(*pair, Path(folder, *pair), options) for pair in tried}
    worst = max(ratios, key=ratios.__getitem__)
    print(
        verdict(f"our Brier score over scikit-learn's, worst ({', '.join(worst)})", ratios[worst], 1.02, at_least=False)
    )


if __name__ == "__main__":
    main()
