"""Write the same rows in every source format, and read a data set back as plain arrays."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from pipeline.data.dataset import Dataset


@dataclass(frozen=True)
class Table:
    """Rows as a test makes them: dense x, labels of any kind, costs."""

    x: np.ndarray
    y: np.ndarray
    costs: np.ndarray


def write_svmlight(path: Path, table: Table, base: int = 1) -> Path:
    lines = []
    for x, y in zip(table.x, table.y, strict=True):
        pairs = [f"{j + base}:{float(x[j])!r}" for j in np.flatnonzero(x)]
        lines.append(" ".join([str(y), *pairs]))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_parquet_lists(path: Path, table: Table, row_group_size: int | None = None) -> Path:
    nonzero = [np.flatnonzero(x) for x in table.x]
    columns = {
        "label": pa.array(table.y),
        "weight": pa.array(table.costs),
        "indices": pa.array([j.tolist() for j in nonzero], pa.list_(pa.int32())),
        "values": pa.array([x[j].tolist() for x, j in zip(table.x, nonzero, strict=True)], pa.list_(pa.float64())),
    }
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


def write_parquet_columns(path: Path, table: Table) -> Path:
    columns = {"label": table.y, "weight": table.costs}
    columns |= {f"f{j}": table.x[:, j] for j in range(table.x.shape[1])}
    pq.write_table(pa.table(columns), path)
    return path


def write_npz(path: Path, table: Table, compressed: bool = True) -> Path:
    x = sp.csr_matrix(table.x)
    save = np.savez_compressed if compressed else np.savez
    save(path, data=x.data, indices=x.indices, indptr=x.indptr, shape=x.shape, y=table.y, weight=table.costs)
    return path


def write_csv(path: Path, table: Table) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["label", "weight", *(f"f{j}" for j in range(table.x.shape[1]))])
        for x, y, c in zip(table.x, table.y, table.costs, strict=True):
            writer.writerow([y, repr(float(c)), *(repr(float(v)) for v in x)])
    return path


WRITERS = {
    "svmlight": (write_svmlight, "rows.svm"),
    "parquet lists": (write_parquet_lists, "rows.parquet"),
    "parquet columns": (write_parquet_columns, "rows.parquet"),
    "npz": (write_npz, "rows.npz"),
    "csv": (write_csv, "rows.csv"),
}


@dataclass(frozen=True)
class Contents:
    """A whole data set in memory."""

    x: np.ndarray
    labels: np.ndarray
    costs: np.ndarray
    norms: np.ndarray


def contents(data: Dataset) -> Contents:
    """Read everything; the shards must follow each other."""
    parts, first = [], 0
    for shard in data.shards:
        rows = shard.load()
        assert shard.first_row == first
        assert shard.n_rows == rows.n_rows
        assert shard.nnz == rows.nnz
        first += rows.n_rows
        parts.append(rows)
    assert first == data.n_rows
    return Contents(
        np.vstack([rows.csr().toarray().astype(np.float64) for rows in parts]),
        np.concatenate([rows.labels for rows in parts]),
        np.concatenate([rows.costs for rows in parts]),
        np.concatenate([rows.norms for rows in parts]),
    )
