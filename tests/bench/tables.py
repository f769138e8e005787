"""A table as users have them: ``svmsieve`` beside pandas and scikit-learn's transformers, in the same run.

ingest: a mixed table of ``--rows`` rows (numbers with gaps, strings, a date as text, an id; made, Parquet). Ours is
``svmsieve ingest``, the whole command, and ends with shards on disk; theirs is pandas' reader and a ColumnTransformer
(OneHotEncoder, StandardScaler after a SimpleImputer with its indicator), and ends with a matrix in memory. Rows a
second, and the peak memory of either process.

tune: ``svmsieve tune`` on flights_raw.parquet (development data) with a fifth of the rows held out of everything, and a
Pipeline of the same transformers and LinearSVC(loss="hinge") in a GridSearchCV over the C that tune tries on its
lattice, 5 folds, both cores. Accuracy on the rows held out.

python -m tests.bench.tables [ingest] [tune] [--rows 5000000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import pipeline
from tests.bench.measure import verdict
from tests.conftest import DEVELOPMENT_DATA

CHUNK = 250_000
FLIGHTS = DEVELOPMENT_DATA / "flights_raw.parquet"
LABEL = "delayed"


def make(path: Path, rows: int) -> None:
    """Write the table, some rows at a time."""
    writer = None
    for first in range(0, rows, CHUNK):
        table = _part(np.random.default_rng(first), min(CHUNK, rows - first), first)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _part(draw: np.random.Generator, n: int, first: int) -> pa.Table:
    distance, delay = draw.gamma(2.0, 500.0, n).round(), draw.normal(5, 30, n).round()
    carrier, tail = draw.integers(0, 16, n), (draw.zipf(1.3, n) - 1) % 4_000
    dest, hour = (draw.zipf(1.2, n) - 1) % 100, draw.integers(0, 24 * 181, n)
    late = delay + 3 * (carrier % 5) + 0.1 * (hour % 24) + draw.normal(0, 10, n) > 15
    days = np.datetime64("2013-01-01T00", "h") + hour
    columns = {
        "distance": pa.array(distance),
        "dep_delay": pa.array(delay, mask=draw.random(n) < 0.03),
        "sched": pa.array(draw.integers(0, 2400, n)),
        "carrier": pa.array(np.char.add("C", carrier.astype(str))),
        "tailnum": pa.array(np.char.add("N", tail.astype(str)), mask=draw.random(n) < 0.01),
        "dest": pa.array(np.char.add("D", dest.astype(str))),
        "time_hour": pa.array(np.datetime_as_string(days, unit="m")),
        "flight_id": pa.array(np.char.add("F", np.arange(first, first + n).astype(str))),
        LABEL: pa.array(np.where(late, "yes", "no")),
    }
    return pa.table(columns)


def transformers(numbers: list[str], strings: list[str], date: str):
    """Return what a careful user of scikit-learn writes."""
    import pandas as pd  # noqa: PLC0415
    from sklearn.compose import ColumnTransformer  # noqa: PLC0415
    from sklearn.impute import SimpleImputer  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler  # noqa: PLC0415

    def parts(frame):
        when = pd.to_datetime(frame[date].str.slice(0, 16))
        return pd.DataFrame({"hour": when.dt.hour, "weekday": when.dt.day_of_week, "month": when.dt.month})

    def onehot():
        return OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5)

    number = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    dates = make_pipeline(FunctionTransformer(parts), onehot())
    return ColumnTransformer([("n", number, numbers), ("s", onehot(), strings), ("d", dates, [date])])


def theirs(path: str) -> None:
    """Read and transform the table with pandas and scikit-learn; print the seconds."""
    start = time.perf_counter()
    import pandas as pd  # noqa: PLC0415

    frame = pd.read_parquet(path)
    made = transformers(["distance", "dep_delay", "sched"], ["carrier", "tailnum", "dest"], "time_hour")
    x = made.fit_transform(frame)
    print(json.dumps({"seconds": time.perf_counter() - start, "shape": x.shape, "nnz": int(x.nnz)}))


def watched(*words: object) -> tuple[float, float]:
    """Run a command; return its seconds and the peak of its memory in GB."""
    start = time.perf_counter()
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        seen, peak = psutil.Process(process.pid), 0
        while process.poll() is None:
            try:
                found = seen.memory_full_info() if hasattr(seen, "memory_full_info") else seen.memory_info()
                peak = max(peak, getattr(found, "uss", found.rss))
            except psutil.Error:
                break
            time.sleep(0.05)
        process.wait()
    if process.returncode:
        raise RuntimeError(f"{words} ended with {process.returncode}")
    return time.perf_counter() - start, peak / 1e9


def bench_ingest(folder: Path, rows: int) -> None:
    table = folder / "table.parquet"
    make(table, rows)
    print(f"ingest: {rows:,} rows, {table.stat().st_size / 1e6:,.0f} MB of Parquet", flush=True)
    command = Path(sys.executable).parent / "svmsieve"
    watched(command, "ingest", table, "--label-column", LABEL, "--out", folder / "warm", "--rows-per-shard", 10_000_000)
    ours, memory = watched(command, "ingest", table, "--label-column", LABEL, "--out", folder / "shards")
    print(f"  svmsieve ingest: {ours:.1f} s, {rows / ours:,.0f} rows/s, peak {memory:.2f} GB", flush=True)
    other, held = watched(sys.executable, "-m", "tests.bench.tables", "--theirs", table)
    print(f"  pandas + scikit-learn: {other:.1f} s, {rows / other:,.0f} rows/s, peak {held:.2f} GB")
    print(f"  {other / ours:.1f} times as fast, {memory / held:.2f} of the memory", flush=True)


def bench_tune(folder: Path) -> None:
    import pandas as pd  # noqa: PLC0415
    from sklearn.model_selection import GridSearchCV  # noqa: PLC0415
    from sklearn.pipeline import Pipeline  # noqa: PLC0415
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    table = pq.read_table(FLIGHTS)
    apart = np.random.default_rng(7).random(table.num_rows) < 0.2
    pq.write_table(table.filter(pa.array(~apart)), folder / "train.parquet")
    pq.write_table(table.filter(pa.array(apart)), folder / "test.parquet")
    command = Path(sys.executable).parent / "svmsieve"
    run, out = folder / "run", folder / "p.parquet"
    ours, _ = watched(command, "tune", folder / "train.parquet", "--label-column", LABEL, "--out", run)
    subprocess.run([command, "predict", run, folder / "test.parquet", "--out", out, "-q"], check=True)
    found = pq.read_table(out)
    right = float(np.mean(np.array(found["label"].to_pylist()) == np.array(found["truth"].to_pylist())))
    header = pipeline.open_run(run).header
    lattice = [c for c in header.cv_c or () if abs(2 * np.log10(c) - round(2 * np.log10(c))) < 1e-2]
    print(
        f"tune: {ours:.1f} s, C = {header.c_best:.4g}, accuracy {right:.4f}; {len(lattice)} C on the lattice",
        flush=True,
    )
    frame, judge = (pd.read_parquet(folder / f"{name}.parquet") for name in ("train", "test"))
    strings = ["carrier", "tailnum", "origin", "dest"]
    aside = {*strings, "time_hour", LABEL, "flight_id", "year"}
    numbers = [name for name in frame.columns if name not in aside]
    model = Pipeline([("x", transformers(numbers, strings, "time_hour")), ("svc", LinearSVC(loss="hinge"))])
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(model, {"svc__C": lattice}, cv=5, n_jobs=2).fit(frame, frame[LABEL])
    seconds = time.perf_counter() - start
    theirs_right = float(np.mean(search.predict(judge) == judge[LABEL]))
    print(f"  Pipeline, GridSearchCV over {len(lattice)} C: {seconds:.1f} s, accuracy {theirs_right:.4f}", flush=True)
    print(verdict("points of accuracy behind it", 100 * (theirs_right - right), 0.5, at_least=False))
    print(verdict("times as fast", seconds / ours, 3.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["ingest", "tune"])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--theirs", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.theirs:
        theirs(options.theirs)
        return
    with tempfile.TemporaryDirectory(prefix="tables-") as folder:
        if "ingest" in options.parts:
            bench_ingest(Path(folder), options.rows)
        if "tune" in options.parts:
            bench_tune(Path(folder))


if __name__ == "__main__":
    main()
