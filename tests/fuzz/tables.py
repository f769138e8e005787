"""Mixed tables: learnt from, applied to other rows, compared cell by cell; files of columns; encodings as stored."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.data.dataset import open_shards
from pipeline.data.ingest.ingest import ingest, reading_spec
from pipeline.data.reading.choose import open_source
from pipeline.data.tables.encoding import Encoding
from pipeline.data.tables.plan import Categorical, Dates, Numeric, TablePlan, Text, read_plan
from pipeline.data.tables.report import as_yaml, report_lines
from pipeline.data.tables.stored import from_json, to_json
from pipeline.engine.engine import Engine
from pipeline.errors import SieveError
from pipeline.path.fit import fit_path
from pipeline.runs.directory import open_run
from pipeline.scoring.models import any_model_of
from pipeline.scoring.rows_to_score import RowsToScore
from tests.data.tables.slow import features
from tests.fuzz.csv import separator_of
from tests.fuzz.jobs import TOKENS as YAML_TOKENS
from tests.fuzz.judge import Target, WrongError
from tests.fuzz.mutate import NUMBERS, TEXTS, VALUES, mutated, mutated_item, mutated_json
from tests.fuzz.reading import COMPRESSED

SEPARATORS = (",", ";", "\t", "|")
CELLS: dict[str, tuple[str, ...]] = {
    "number": ("1", "2.5", "-3", "", "1e5", " 4", "NA", "0.1", "17.0"),
    "kind": (
        "a",
        "b",
        "a b",
        "A",
        "true",
        "TRUE",
        "",
        "17",
        "17.0",
        "é",
        "x;y",
        "x,y",
        "p|q",
        "t\tu",
        'q"r',
        "(other)",
    ),
    "date": ("2013-01-01", "1999-12-31T23:59:59", "2020-02-29 07:00", "", "0001-01-01", "2013-06-30T10:00:00+02:00"),
    "note": ("some words here", "two\nlines", "", "Some, words", "w " * 120, "it's"),
    "code": ("7", "007", "7.0", "8", "nan", "-nan"),
}
TREATED = {
    "number": (Numeric("standard"), Numeric("maxabs", "zero"), Numeric("none", "indicator"), Categorical(min_count=1)),
    "kind": (Categorical(min_count=1), Categorical("hash"), Text((1, 2)), Categorical("onehot", 2)),
    "date": (Dates(), Dates(("minute", "day")), Categorical()),
    "note": (Text(), Text((2, 3)), Categorical("hash")),
    "code": (Categorical(min_count=1), Numeric()),
}
TOKENS = tuple(
    token.encode()
    for token in (
        *NUMBERS,
        *(
            ",",
            ";",
            "|",
            "\t",
            '"',
            '""',
            "\n",
            "\r\n",
            '"\n"',
            "label",
            "NA",
            "inf",
            "2013-02-30",
            "true",
            "\x1f",
            "1,5",
        ),
        *("\0", "\ufeff", "l" * 300),
    )
)
Table = list[list[str]]


class Tables(Target):
    """A CSV or Parquet table and other rows of the same columns."""

    name = "tables"
    share = 2

    def prepare(self, folder: Path) -> None:
        """Have everything loaded and compiled."""
        for case in range(10):
            warm = folder / f"warm-{case}"
            warm.mkdir()
            with suppress(SieveError):
                self.attempt(Random(case), warm)

    def attempt(self, chance: Random, folder: Path) -> None:
        """Learn, apply, compare."""
        names = [f"{kind}{k}" for k, kind in enumerate(chance.choices([*CELLS], k=chance.randrange(1, 6)))]
        plan = _plan(chance, names)
        path, slow = _written(chance, folder, "rows", _table(chance, names, labelled=True))
        spec = reading_spec(columns=plan, workers=1, rows_per_shard=3)
        manifest = ingest([str(path)], folder / "shards", spec)
        encoding, data = manifest.encoding, open_shards(folder / "shards")
        if encoding is None or data.encoding != encoding or from_json(to_json(encoding)) != encoding:
            raise WrongError("what was learnt is not what is stored")
        report_lines(encoding)
        as_yaml(encoding, manifest.bias)
        loaded = [shard.load() for shard in data.shards]
        _compare(encoding, [(rows.indptr, rows.indices, rows.values) for rows in loaded], slow, bool(manifest.bias))
        other = chance.sample(names, len(names)) + (["extra"] if chance.random() < 0.3 else [])
        path, slow = _written(chance, folder, "other", _table(chance, other, labelled=False))
        rules = replace(spec.reading.rules, unlabelled=True)
        source = open_source(str(path), replace(spec.reading, rules=rules).encoded(encoding))
        blocks = [task() for task in source.tasks()]
        _compare(encoding, [(block.indptr, block.indices, block.values) for block in blocks], slow, biased=False)


def _table(chance: Random, names: list[str], labelled: bool) -> Table:
    kinds = [name.rstrip("0123456789") for name in names]
    rows = []
    for k in range(chance.choice((2, 4, 9, 25)) if labelled else chance.randrange(1, 5)):
        cells = [chance.choice(CELLS[kind]) if kind in CELLS else "x" for kind in kinds]
        rows.append([*cells, ("no", "yes")[k % 2]] if labelled else cells)
    table = [[*names, "label"] if labelled else [*names], *rows]
    if chance.random() < 0.3:
        cells = chance.choice(table)
        cells[chance.randrange(len(cells))] = chance.choice((*NUMBERS, *TEXTS[:9], "label", "weight", "x\x1fy"))
    return table


def _plan(chance: Random, names: list[str]) -> TablePlan:
    treatments = tuple(
        (name, chance.choice(TREATED[name.rstrip("0123456789")])) for name in names if chance.random() < 0.5
    )
    crosses = (tuple(chance.sample(names, 2)),) if len(names) > 1 and chance.random() < 0.3 else ()
    others = "drop" if treatments and chance.random() < 0.1 else "auto"
    return TablePlan(treatments=treatments, crosses=crosses, others=others, hash_bits=chance.choice((1, 6, 20)))


def _written(chance: Random, folder: Path, name: str, table: Table) -> tuple[Path, list[dict[str, Any]] | None]:
    """Write a table, now and then damaged; return the rows that a slow reader finds in it, if it can."""
    if chance.random() < 0.25 and len(set(table[0])) == len(table[0]):
        path = folder / f"{name}.parquet"
        columns = {
            column: _typed(chance, list(cells))
            for column, cells in zip(table[0], zip(*table[1:], strict=True), strict=True)
        }
        made = pa.table(columns)
        pq.write_table(made, path, row_group_size=chance.choice((None, 2)))
        if chance.random() < 0.3:
            path.write_bytes(mutated(chance, path.read_bytes()))
            return path, None
        return path, made.to_pylist()
    stream = io.StringIO(newline="")
    quoting = chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    csv.writer(stream, delimiter=chance.choice(SEPARATORS), quoting=quoting).writerows(table)
    text = stream.getvalue().encode("utf-8", "surrogatepass")
    text = mutated(chance, text, TOKENS) if chance.random() < 0.4 else text
    path = folder / f"{name}.csv"
    if chance.random() < 0.1:
        path = folder / f"{name}.csv.gz"
        path.write_bytes(COMPRESSED[".gz"](text))
    else:
        path.write_bytes(text)
    return path, _slow(text)


def _typed(chance: Random, cells: list[str]) -> pa.Array:
    """Return cells as text, codes, or the numbers they are."""
    kind = chance.random()
    plain = pa.array([None if cell == "" else cell for cell in cells], pa.string())
    if kind < 0.3:
        return plain
    if kind < 0.5:
        return plain.dictionary_encode()
    try:
        numbers = pa.array([None if cell in ("", "NA", "nan", "-nan") else float(cell) for cell in cells], pa.float64())
    except ValueError:
        return plain.cast(pa.large_string())
    return numbers.dictionary_encode() if kind < 0.7 else numbers


def _slow(text: bytes) -> list[dict[str, Any]] | None:
    """Read CSV with the standard library; None where that cannot tell."""
    try:
        plain = text.decode("utf-8-sig")
        lines = list(csv.reader(io.StringIO(plain, newline=""), delimiter=separator_of(plain), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    lines = [line for line in lines if line]
    if not lines or any(len(line) != len(lines[0]) for line in lines):
        return None
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def _compare(
    encoding: Encoding, parts: Iterable[tuple[Any, ...]], rows: list[dict[str, Any]] | None, biased: bool
) -> None:
    """Raise unless the rows have the features that the slow reader makes of their cells."""
    if rows is None:
        return
    found = [
        (indices[first:end].tolist(), values[first:end].astype(np.float64).tolist())
        for indptr, indices, values in parts
        for first, end in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True)
    ]
    if len(found) != len(rows):
        raise WrongError("rows are missing or too many", f"{len(found)} instead of {len(rows)}")
    table = to_json(encoding)
    for number, ((indices, values), cells) in enumerate(zip(found, rows, strict=True)):
        got: dict[Any, float] = {}
        for j, value in zip(indices, values, strict=True):
            if biased and j == encoding.n_features:
                continue
            if not 0 <= j < encoding.n_features:
                raise WrongError("a feature is outside", str(j))
            name = encoding.name(j) if j < encoding.n_own else ("bucket", j - encoding.n_own)
            got[name] = got.get(name, 0.0) + value
        wanted = features(table, cells)
        for name in {*got, *wanted}:
            if abs(got.get(name, 0.0) - wanted.get(name, 0.0)) > 1e-6 * (1 + abs(wanted.get(name, 0.0))):
                raise WrongError("a value is another", f"row {number}, {name}: {got.get(name)} not {wanted.get(name)}")


COLUMNS = b"""label: label
id: [a]
drop: [b, c]
numeric: [{columns: [d], scale: maxabs, missing: zero}, {columns: [e]}]
categorical: {columns: [f, g], encode: onehot, min_count: 2}
text: {columns: h, ngrams: [1, 2], encode: hash}
dates: {columns: [i], parts: [hour, weekday]}
cross: [[f, g], [d, f]]
others: drop
hash_bits: 12
bias: 0.5
"""


class Columns(Target):
    """A file of columns."""

    name = "columns"

    def attempt(self, chance: Random, folder: Path) -> None:
        """Read it, damaged."""
        path = folder / "columns.yaml"
        path.write_bytes(mutated(chance, COLUMNS, YAML_TOKENS))
        plan = read_plan(path)
        used = [*(name for name, _ in plan.treatments), *plan.ids, *plan.drop]
        if len(set(used)) < len(used) or not 1 <= plan.hash_bits <= 28 or not np.isfinite(plan.bias):
            raise WrongError("a plan that cannot be", str(plan))


ROWS = """x,kind,when,note,label
1,a,2013-01-01,some words,yes
2,b,2014-02-02,other words,no
3.5,a,2015-03-03,,yes
,b,,more,no
5,a,2016-04-04,words,yes
6,,2017-05-05,some,no
"""
ASKED = TablePlan(
    treatments=(("note", Text()), ("kind", Categorical(min_count=1))), crosses=(("kind", "note"),), hash_bits=4
)


class StoredTables(Target):
    """What a manifest or run.json says of a table, changed."""

    name = "stored-tables"

    def prepare(self, folder: Path) -> None:
        """Make a data set and a run."""
        self.rows = folder / "rows.csv"
        self.rows.write_text(ROWS)
        ingest([str(self.rows)], folder / "data", reading_spec(columns=ASKED, workers=1))
        data = open_shards(folder / "data")
        fit_path(data, out=folder / "run", grid=(1.0,), scheduler="inline")
        self.width = data.n_features - 1
        self.kept = {
            which: {
                str(p.relative_to(folder / which)): p.read_bytes() for p in (folder / which).rglob("*") if p.is_file()
            }
            for which in ("data", "run")
        }

    def attempt(self, chance: Random, folder: Path) -> None:
        """Change it, and apply it to rows."""
        which, name = chance.choice((("data", "manifest.json"), ("run", "run.json")))
        for each, content in self.kept[which].items():
            (folder / which / each).parent.mkdir(parents=True, exist_ok=True)
            (folder / which / each).write_bytes(content)
        item = json.loads(self.kept[which][name])
        holder = item if which == "data" else item["data"]
        holder["table"] = mutated_item(chance, holder["table"], (*VALUES, "x", "kind", "note", "hashed", "number"))
        text = json.dumps(item).encode() if chance.random() < 0.9 else mutated_json(chance, item)
        (folder / which / name).write_bytes(text)
        rows = folder / "rows.csv"
        rows.write_text(ROWS)
        if which == "run":
            model = any_model_of(open_run(folder / "run"), 1.0)
            if model.w.size != self.width + 1:
                raise WrongError("a model of another width")
            with Engine("inline"):
                for score, _ in RowsToScore(model, rows).parts():
                    if not np.isfinite(score).all():
                        raise WrongError("a score is not finite")
            return
        data = open_shards(folder / "data")
        if data.encoding is not None and data.encoding.n_features != self.width:
            raise WrongError("features of another number")
        ingest([str(rows)], folder / "data", reading_spec(append=True, workers=1))
        indices = [shard.load().indices for shard in open_shards(folder / "data").shards]
        if max(each.max() for each in indices) > self.width:
            raise WrongError("a feature is outside")
