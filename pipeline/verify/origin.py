"""Does run.json say of the data what the data say? Labels, bias, columns and shards; for ``verify``.

The fingerprint is that of the numbers. What the two classes are called, what the features are called and which of them
is the bias decide what ``predict`` makes of the model, so they must be those of the data at hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.data.dataset import Dataset
from pipeline.data.shards.digest import fingerprint, lanes_of
from pipeline.errors import RunError
from pipeline.events import Listener, Note
from pipeline.runs.data_record import DataRecord
from pipeline.verify.said import SaidRun


def check_origin(run: SaidRun, data: Dataset, listen: Listener) -> None:
    """Raise RunError if the data are others, or have other names; a note says what cannot be known."""
    said, found = DataRecord.from_json(run.header["data"]), DataRecord.of(data)
    if said.fingerprint != found.fingerprint:
        raise RunError(f"{run.path}: was made from other data ({said.path}) than {data.path}; verify it with those")
    for problem in _differences(said, found, data):
        raise RunError(f"{run.path}: {problem}; verify it with the data that it was made from, or train again")
    if said.columns is not None and found.columns is None:
        listen(Note(f"{run.path}: {data.path} has no column names; those in run.json are not checked"))


def _differences(said: DataRecord, found: DataRecord, data: Dataset) -> Iterator[str]:
    for name in ("rows", "features", "nnz", "bias"):
        one, other = getattr(said, name), getattr(found, name)
        if one != other and one is not None:  # early runs do not say nnz
            yield f"run.json says {name} {one:,}, but the data have {other:,}"
    for name in ("negative", "positive"):
        one, other = getattr(said, name), getattr(found, name)
        if set(one) != set(other):
            yield f"run.json calls the {name} class {', '.join(one)}, but the data {', '.join(other)}"
    if said.classes != found.classes:
        yield f"run.json has the classes {', '.join(said.classes)}, but the data {', '.join(found.classes)}"
    if said.one_against_rest != found.one_against_rest:
        yield "run.json says otherwise than the data whether the negative class is all that is not positive"
    if said.says_columns and found.columns is not None and said.columns != found.columns:
        yield "run.json has other names of columns than the data"
    if _table(said) != _table(found):
        yield "run.json says that features were made of a table's columns in another way than the data do"
    if None not in (said.index_base, found.index_base) and said.index_base != found.index_base:
        yield f"run.json says that indices counted from {said.index_base}, but the data from {found.index_base}"
    if said.shards and data.fingerprint_of(_fingerprint(said)) != said.fingerprint:
        yield "the shards in run.json are not those of its data"


def _fingerprint(said: DataRecord) -> str:
    return fingerprint([(lanes_of(digest), rows) for digest, rows in said.shards], said.features)


def _table(about: DataRecord) -> str | None:
    """Return what tells how features were made of columns from other ways."""
    return None if about.encoding is None else about.encoding.digest
