"""What benchmarks of many models share: sets in memory and as shards, rows held out of everything, whole commands.

Sets are read from a folder, or made: url-like at scale 0.1 of the registry, digits of scikit-learn, and text with 20
classes (below). ``--rows`` takes so many of a set's rows, chosen by a fixed seed: to try a script out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits

from pipeline.data.registry.synthetic import design, make_rows
from tests.bench.kernel_sets import write_rows
from tests.bench.references import load_set
from tests.conftest import DEVELOPMENT_DATA
from tests.watched import SVMSIEVE

TEXT_ROWS, TEXT_CLASSES, TEXT_WORDS, TOPIC_WORDS = 200_000, 20, 50_000, 2_000
HELD_OUT = 0.2  # of the rows: out of everything


@dataclass(frozen=True)
class Memory:
    """Rows and labels in memory."""

    name: str
    x: sp.csr_matrix
    y: np.ndarray

    @property
    def n(self) -> int:
        return self.y.size

    def said(self) -> str:
        """Describe it in one line."""
        return f"{self.name}: {self.n:,} rows, {self.x.shape[1]:,} features, {self.x.nnz:,} nonzeros"

    def some(self, rows: np.ndarray) -> Memory:
        """Return some of the rows."""
        return Memory(self.name, self.x[rows], self.y[rows])

    def split(self) -> tuple[Memory, Memory]:
        """Return the rows to tune on, and those that are held out of everything."""
        order = np.random.default_rng(2).permutation(self.n)
        out = round(HELD_OUT * self.n)
        return self.some(np.sort(order[out:])), self.some(np.sort(order[:out]))

    def shards(self, folder: Path) -> Path:
        """Write them as shards, labels as they are."""
        return write_rows(folder, self.x, self.y)


def open_memory(name: str, options: argparse.Namespace) -> Memory:
    """Return a set, or ``--rows`` of it."""
    if name == "digits":
        x, y = load_digits(return_X_y=True)
        found = Memory(name, sp.csr_matrix(x / 16.0), y)
    elif name == "text":
        found = made_text(options.rows or TEXT_ROWS)
    elif name == "url-like":
        plan = design(name, 0.1)
        rows = make_rows(plan, 0, min(plan.rows, options.rows or plan.rows))
        found = Memory(name, sp.csr_matrix(rows.csr(), dtype=np.float64), rows.labels.astype(np.float64))
    else:
        x, y = load_set(name, options.data)
        found = Memory(name, sp.csr_matrix(x), y)
    x = found.x
    x.indices, x.indptr = x.indices.astype(np.int32), x.indptr.astype(np.int32)  # scikit-learn takes no others
    if options.rows and options.rows < found.n:
        return found.some(np.sort(np.random.default_rng(1).permutation(found.n)[: options.rows]))
    return found


def made_text(n: int, seed: int = 0) -> Memory:
    """Make documents of some 60 words, a fifth of them from the topic of their class; log counts, unit length.

    Words follow Zipf's law; a topic is 2,000 of the 50,000 words in an order of its own, so that topics overlap.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, TEXT_CLASSES, n)
    row = np.repeat(np.arange(n), rng.poisson(60, n) + 1)
    word = (TEXT_WORDS ** rng.random(row.size) - 1).astype(np.int64)  # log-uniform: Zipf with exponent 1
    topics = np.stack([rng.permutation(TEXT_WORDS)[:TOPIC_WORDS] for _ in range(TEXT_CLASSES)])
    own = rng.random(row.size) < 0.2
    place = (TOPIC_WORDS ** rng.random(row.size) - 1).astype(np.int64)
    word[own] = topics[y[row[own]], place[own]]
    x = sp.csr_matrix((np.ones(row.size), (row, word)), shape=(n, TEXT_WORDS))
    x.sum_duplicates()
    x.data = np.log1p(x.data)
    x.data /= np.repeat(np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel()), np.diff(x.indptr))
    return Memory("text", x, y)


def command(*words: object) -> float:
    """Run a whole svmsieve command in a process of its own; return its seconds. Bytecode is kept, as for users."""
    begin = time.perf_counter()
    subprocess.run(
        [*SVMSIEVE, *map(str, words), "--quiet"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )
    return time.perf_counter() - begin


def arguments(what: str | None, sets: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser with what all of them ask for."""
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DEVELOPMENT_DATA, metavar="DIR", help="where the sets' files are")
    parser.add_argument("--sets", nargs="+", default=list(sets), metavar="NAME")
    parser.add_argument("--rows", type=int, metavar="N", help="of each set, to try it out")
    return parser
