"""The sets that kernel benchmarks run on, by the paper's names, as rows in memory and as shards.

bcd comes with scikit-learn, the others are read from a folder. bcd, satimage, magic and shuttle have features of very
different sizes in the source, which one gamma for all cannot serve: they are scaled to [-1, 1] by feature. The others
are as in the source.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer

import pipeline
from pipeline.data.ingest.ingest import IngestSpec, Input
from tests.bench.references import load_set, to_unit_range
from tests.conftest import DEVELOPMENT_DATA

SETTINGS = {"kernel": "rbf", "memory": "8GB"}
GAMMAS = "0.1,1,10"  # the paper's, times 1/d


@dataclass(frozen=True)
class Source:
    """A set's file, none if it comes with scikit-learn; whether it is to be scaled."""

    file: str
    scaled: bool = False


SETS = {
    "bcd": Source("", scaled=True),
    "dna": Source("dna_scale"),
    "digit1": Source("digit1"),
    "satimage": Source("satimage_trn", scaled=True),
    "mushrooms": Source("mushrooms"),
    "shuttle": Source("shuttle_trn", scaled=True),
    "magic": Source("magic", scaled=True),
    "a9a": Source("a9a"),
}


@dataclass(frozen=True)
class KernelSet:
    """Rows and labels in memory, and the directory of the same rows as shards."""

    name: str
    x: np.ndarray
    y: np.ndarray
    shards: Path

    @property
    def n(self) -> int:
        return self.y.size

    def said(self) -> str:
        """Describe it in one line."""
        how = "scaled to [-1, 1], unscaled in the source" if SETS[self.name].scaled else "as in the source"
        return f"{self.name}: {self.n:,} rows, {self.x.shape[1]:,} features, {how}"

    def gram(self, gamma: float) -> np.ndarray:
        """Return Q of all rows in float64, from differences: squares that cancel have no part in it."""
        return np.outer(self.y, self.y) * np.exp(-gamma * cdist(self.x, self.x, "sqeuclidean"))


def open_set(name: str, data: Path, folder: Path) -> KernelSet:
    """Read a set, from the folder of data if it has a file there, and write its shards."""
    source = SETS[name]
    if source.file and not (data / f"{source.file}.svm.gz").exists():
        raise SystemExit(f"{data}: has no {source.file}.svm.gz; give the folder that has it with --data")
    x, y = load_set(source.file, data) if source.file else bundled()
    rows = to_unit_range(x) if source.scaled else x.toarray()
    return KernelSet(name, rows, y, write_rows(folder / name, rows, y))


def write_rows(target: Path, x: np.ndarray | sp.csr_array, y: np.ndarray, rows_per_shard: int | None = None) -> Path:
    """Write rows as shards."""
    target.parent.mkdir(exist_ok=True)
    rows, stored = sp.csr_array(x), target.with_suffix(".npz")
    arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape}
    np.savez(stored, y=y.astype(np.int64), **arrays)
    pipeline.ingest([Input(str(stored))], target, IngestSpec(rows_per_shard=rows_per_shard))
    return target


def bundled() -> tuple[sp.csr_array, np.ndarray]:
    """Return breast cancer's rows and labels."""
    x, y = load_breast_cancer(return_X_y=True)
    return sp.csr_array(x), np.where(y > 0, 1.0, -1.0)


def warm_up(folder: Path) -> None:
    """Have all compiled code loaded (the very first time: compiled) by small paths."""
    rows = open_set("bcd", DEVELOPMENT_DATA, folder / "warm-up")
    for solver in ("auto", "projected", "newton"):
        pipeline.fit_path(rows.shards, gamma="1/d", epsilon=0.1, solver=solver, workers=1, **SETTINGS)


def add_arguments(parser: argparse.ArgumentParser, sets: Sequence[str]) -> None:
    """Add what all kernel benchmarks ask for."""
    parser.add_argument("--data", type=Path, default=DEVELOPMENT_DATA, metavar="DIR")
    parser.add_argument("--sets", type=_names, default=list(sets), help="such as bcd,dna")
    parser.add_argument("--gammas", type=_numbers, default=_numbers(GAMMAS), help="times 1/d, such as 0.1,1,10")
    parser.add_argument("--every", type=int, default=10, metavar="K", help="LIBSVM at every K-th C")


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in SETS]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no set {unknown[0]!r}; there are {', '.join(SETS)}")
    return names


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are no numbers; write for example 0.1,1,10") from None
