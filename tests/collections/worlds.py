"""Small rows of all kinds: the same numbers as NumPy has them, and as every other kind has them."""

from __future__ import annotations

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp

NAMES = ["a", "b", "c", "d"]


def rows(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with zeros, and labels "no" and "yes" that come from them; the first ones are all "no"."""
    grid = np.arange(n * 4, dtype=np.float64).reshape(n, 4)
    x = np.sin(grid * 1.7) * (np.cos(grid * 0.9) > -0.3)
    score = x[:, 0] - x[:, 2] + 0.3 * np.sin(grid[:, 1] * 2.3)
    y = np.where(score > 0, "yes", "no")
    order = np.argsort(y == "yes", kind="stable") if n < 40 else np.arange(n)
    return x[order], y[order]


def frame(x: np.ndarray, y: np.ndarray | None = None) -> pd.DataFrame:
    found = pd.DataFrame(x, columns=NAMES)
    return found if y is None else found.assign(label=y)


def unknown(x: da.Array) -> da.Array:
    """Return the same array, with chunk sizes that are not known."""
    return x[da.ones(x.shape[0], chunks=(x.chunks[0],)) > 0]


def kinds(x: np.ndarray, y: np.ndarray, chunk: int = 17) -> dict[str, tuple]:
    """Return arguments of ``dataset_of`` that all stand for the same rows."""
    array = da.from_array(x, chunks=(chunk, 4))
    labels = da.from_array(y, chunks=chunk)
    parts = -(-len(y) // chunk)
    table = pa.table({name: x[:, k] for k, name in enumerate(NAMES)})
    return {
        "numpy": (x, y),
        "lists": (x.tolist(), y.tolist()),
        "fortran order": (np.asfortranarray(x), y),
        "csr_matrix": (sp.csr_matrix(x), y),
        "csr_array": (sp.csr_array(x), y),
        "csc_array": (sp.csc_array(x), y),
        "int64 indices": (wide(sp.csr_array(x)), y),
        "pandas": (frame(x), pd.Series(y)),
        "pandas with labels": (frame(x, y),),
        "pandas, categories": (frame(x), pd.Series(y, dtype="category")),
        "polars": (pl.from_pandas(frame(x)), pl.Series(y)),
        "pyarrow": (table, pa.array(y.tolist())),
        "record batch": (table.combine_chunks().to_batches()[0], pa.chunked_array([y.tolist()])),
        "dask array": (array, labels),
        "dask array, labels in memory": (array, y),
        "dask array, labels cut otherwise": (array, da.from_array(y, chunks=11)),
        "dask array of csr_matrix": (array.map_blocks(sp.csr_matrix), labels),
        "dask array of csr_array": (array.map_blocks(sp.csr_array), labels),
        "dask array, unknown sizes": (unknown(array), unknown(labels)),
        "dask frame": (dd.from_pandas(frame(x), chunksize=chunk), dd.from_pandas(pd.Series(y), chunksize=chunk)),
        "dask frame with labels": (dd.from_pandas(frame(x, y), npartitions=parts),),
        "dask frame, labels of an array": (dd.from_pandas(frame(x), npartitions=len(y) // 20), da.from_array(y, 20)),
    }


def wide(x: sp.csr_array) -> sp.csr_array:
    """Return it with int64 indices."""
    found = sp.csr_array(x)
    found.indices, found.indptr = found.indices.astype(np.int64), found.indptr.astype(np.int64)
    return found


def bag(x: np.ndarray, y: np.ndarray, npartitions: int = 4) -> db.Bag:
    """Return rows as dicts of their nonzeros, with their labels."""
    records = [
        {n: v for n, v in zip(NAMES, row, strict=True) if v} | {"label": str(c)} for row, c in zip(x, y, strict=True)
    ]
    return db.from_sequence(records, npartitions=npartitions)
