"""Synthetic stand-ins for url, kdd-a and kdd-b: the real shapes, made shard by shard from a seed.

A row has one value in most of F categorical fields, whose vocabularies grow geometrically and whose values follow Zipf
laws, plus (url-like) real-valued columns; it is scaled to unit length. Its label is the sign of a sparse linear rule
minus a threshold, plus noise. Every number is a hash of (seed, row, field), so a row does not depend on which shard,
thread or machine makes it.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.cores import available_cores
from pipeline.data.ingest.assemble import DEFAULT_SHARD_BYTES
from pipeline.data.parallel import in_order
from pipeline.data.reading.labels import LabelMap
from pipeline.data.registry.synthetic_kernel import fill_rows, score_rows
from pipeline.data.shards.directory import new_directory
from pipeline.data.shards.manifest import Manifest
from pipeline.data.shards.rows import Rows
from pipeline.data.shards.shard import ROW_BYTES, ShardInfo, shard_name, write_shard
from pipeline.dataclass import dataclass
from pipeline.errors import RegistryError
from pipeline.events import Listener, Progress, silent
from pipeline.installed import version

SAMPLE_ROWS = 1 << 15  # a share of positives within 0.3 % of the one asked for (one standard deviation)
FAR_AWAY = 1 << 40  # the rows that calibrate the threshold; no data set gets there


@dataclass(frozen=True)
class Recipe:
    """The shape of a stand-in at scale 1."""

    rows: int
    features: int
    fields: int
    presence: float
    real_columns: int
    positive_share: float
    noise: float


RECIPES = {
    "url-like": Recipe(2_396_130, 3_231_961, 100, 0.84, 64, 1 / 3, 0.15),
    "kdda-like": Recipe(8_407_752, 20_216_830, 40, 0.908, 0, 6 / 7, 0.35),
    "kddb-like": Recipe(19_264_097, 29_890_095, 32, 0.918, 0, 6 / 7, 0.35),
}


@dataclass(frozen=True)
class Design:
    """A recipe at a scale and a seed, worked out: one row of ``fields`` per categorical field.

    The columns of ``fields`` are first index, vocabulary size, multiplier of the scrambling and Zipf exponent.
    """

    rows: int
    features: int
    real_columns: int
    presence: float
    fields: np.ndarray
    seed: int
    threshold: float = 0.0
    noise: float = 0.0


def design(name: str, scale: float = 1.0, seed: int = 0) -> Design:
    """Work out the vocabularies and the label threshold of a stand-in."""
    if name not in RECIPES:
        raise RegistryError(f"{name} cannot be made; there are {', '.join(RECIPES)}")
    if not 0 < scale <= 1:
        raise RegistryError(f"--scale {scale:g} is not in (0, 1]; 1 is the size of the real data set")
    recipe = RECIPES[name]
    features = max(round(recipe.features * scale), 2 * recipe.fields + recipe.real_columns)
    sizes = _vocabularies(recipe.fields, features - recipe.real_columns)
    starts = recipe.real_columns + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    exponents = 0.85 + 0.4 * (np.arange(recipe.fields) * 0.618 % 1)
    fields = np.column_stack([starts, sizes, [_coprime(int(size)) for size in sizes], exponents])
    plain = Design(max(round(recipe.rows * scale), 2), features, recipe.real_columns, recipe.presence, fields, seed)
    scores = np.empty(SAMPLE_ROWS)
    score_rows(FAR_AWAY, seed, fields, plain.real_columns, plain.presence, scores)
    noise = recipe.noise * float(scores.std())
    threshold = float(np.quantile(scores, 1 - recipe.positive_share))
    return Design(plain.rows, features, plain.real_columns, plain.presence, fields, seed, threshold, noise)


def make_rows(plan: Design, first: int, count: int) -> Rows:
    """Make rows [first, first + count)."""
    width = plan.real_columns + plan.fields.shape[0]
    indptr = np.zeros(count + 1, np.int32)
    indices, values = np.empty(count * width, np.int32), np.empty(count * width, np.float32)
    labels, norms = np.empty(count, np.int8), np.empty(count)
    rule = (plan.threshold, plan.noise)
    nnz = fill_rows(
        first, plan.seed, plan.fields, plan.real_columns, plan.presence, rule, (indptr, indices, values, labels, norms)
    )
    return Rows(indptr, indices[:nnz], values[:nnz], labels, np.ones(count), norms, plan.features)


def make(
    name: str,
    out: str | Path,
    scale: float = 1.0,
    seed: int = 0,
    workers: int | None = None,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
    overwrite: bool = False,
    listen: Listener = silent,
    rows: int | None = None,
) -> Manifest:
    """Make a stand-in as a shard directory, in parallel and in the memory of two shards a worker.

    ``rows`` replaces the number of rows that the scale gives; features stay as scaled.
    """
    plan = design(name, scale, seed)
    plan = plan if rows is None else replace(plan, rows=rows)
    workers = workers or available_cores()
    mean_nonzeros = plan.presence * plan.fields.shape[0] + 0.5 * plan.real_columns
    per_shard = max(1, int(shard_bytes / (8 * mean_nonzeros + ROW_BYTES)))
    total = plan.rows
    with new_directory(out, overwrite) as directory, ThreadPoolExecutor(workers) as pool:
        spans = [(first, min(per_shard, total - first)) for first in range(0, total, per_shard)]
        tasks = [partial(_make_shard, directory.path, plan, k, *span) for k, span in enumerate(spans)]
        shards: list[ShardInfo] = []
        done = bytes_written = 0
        for shard in in_order(pool, tasks, ahead=workers):
            shards.append(shard)
            done, bytes_written = done + shard.rows, bytes_written + shard.bytes
            listen(Progress("make", done, bytes_written, int(bytes_written * total / done)))
        manifest = Manifest(
            features=plan.features,
            labels=LabelMap(("-1",), ("1",)),
            shards=tuple(shards),
            created_by=f"svmsieve {version('svmsieve')}: {name} at scale {scale:g}, seed {seed}",
        )
        directory.finish(manifest)
    return manifest


def _make_shard(directory: Path, plan: Design, number: int, first: int, count: int) -> ShardInfo:
    return write_shard(directory, shard_name(number), make_rows(plan, first, count))


def _vocabularies(fields: int, total: int) -> np.ndarray:
    """Return sizes floor(2 q^k), k < fields, with q such that they add up to ``total`` (the last takes the rest)."""
    low, high = 1.0, 10.0
    for _ in range(200):
        q = (low + high) / 2
        low, high = (q, high) if float(np.sum(np.floor(2 * q ** np.arange(fields)))) <= total else (low, q)
    sizes = np.floor(2 * low ** np.arange(fields)).astype(np.int64)
    sizes[-1] += total - int(sizes.sum())
    return sizes


def _coprime(size: int) -> int:
    """Return a multiplier near the golden ratio of ``size`` that permutes 0..size-1."""
    multiplier = max(1, int(0.6180339887 * size))
    while math.gcd(multiplier, size) != 1:
        multiplier += 1
    return multiplier
