"""What a user may name as data: a shard directory, files of any format, or a data set of the registry."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from glob import has_magic
from pathlib import Path

from pipeline.data.cache import cache_directory
from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.given import refuse_reading, stated
from pipeline.data.ingest.ingest import IngestSpec, Input, ingest, reading_spec
from pipeline.data.reading.arrays import ArraySource
from pipeline.data.reading.base import Source
from pipeline.data.reading.files import FILE_SUFFIXES, expand, format_of, is_folder, size_of, status_of
from pipeline.data.reading.formats import FORMATS
from pipeline.data.registry.registry import RegistryEntry, bundled, find_entry, load_registry
from pipeline.data.shards.manifest import MANIFEST
from pipeline.data.shards.shard import is_shard_name
from pipeline.data.stores.located import is_url, located
from pipeline.errors import DataError, RegistryError
from pipeline.events import Listener, Note, silent
from pipeline.files import one_line, private_folder, waiting_for
from pipeline.redact import last_name

AS_PARQUET = ("auto", "parquet")


def resolve(name: str, spec: IngestSpec, listen: Listener = silent) -> tuple[Input | Source, IngestSpec]:
    """Return what to ingest for a path or a registry name, and the spec with the label rule of the registry, if any.

    A path that exists wins over a name. A set that has to be downloaded is downloaded once into the cache.
    """
    if name == "-":
        raise DataError("standard input is not read; write the rows to a file, and name that", path="DATA -")
    if is_url(name) or status_of(name) is not None or any(c in name for c in "*?["):
        return Input(name), spec
    if name not in load_registry():
        if "/" in name or "." in name:
            raise DataError("no such file; check the path", path=name)
        raise DataError("no such file, and no data set of that name; see svmsieve datasets list", path=name)
    entry = find_entry(name)
    if entry.kind == "bundled":
        return ArraySource(name, partial(bundled, entry)), spec
    if entry.kind == "synthetic":
        raise RegistryError(f"{name} is made, not read: run svmsieve datasets make {name} --out DIR and use DIR")
    if entry.format not in FORMATS:
        problem = f"{name} comes as a .{entry.format} file, which svmsieve does not read"
        raise RegistryError(f"{problem}; convert it to svmlight, CSV, npz or Parquet and ingest that")
    positive = entry.positive if spec.positive is None else spec.positive
    from pipeline.data.registry.fetch import fetch  # noqa: PLC0415 - HTTP and TLS, which few commands need

    with _alone(name, listen):
        file = fetch(entry, cache_directory(), listen)
    return Input(str(file), _reading(spec, entry)), replace(spec, positive=positive)


def open_dataset(
    path: str | Path, spec: IngestSpec | None = None, listen: Listener = silent, given: Collection[str] | None = None
) -> Dataset:
    """Open DATA for passes.

    A shard directory, or the URL of one, is opened as it is and Parquet is read in place. Anything else (an svmlight,
    npz or CSV file, a registry name) is ingested once into the cache directory and found there the next time, as long
    as the file has not changed. Options that cannot apply to shards are refused: those ``given``, by default all in
    which the spec is not as always.
    """
    spec = spec or reading_spec()
    path = str(path)
    if is_shards(path):
        data = open_shards(path)
        refuse_reading(data, spec, stated(spec) if given is None else given)
        return data
    if is_folder(path) or (_is_file(path) and format_of(path) == "parquet" and spec.reading.format in AS_PARQUET):
        from pipeline.data.parquet_dataset import open_parquet_dataset  # noqa: PLC0415 - slow to import

        refuse_other_formats(path, spec)
        if not _to_encode(path, spec):
            return open_parquet_dataset(path, as_they_are(spec).options, spec.positive, spec.bias)
    source, spec = resolve(path, spec, listen)
    directory = cache_directory() / "shards" / _key(source, spec)
    if not (directory / MANIFEST).is_file():
        with _alone(directory.name, listen):
            if not (directory / MANIFEST).is_file():
                listen(Note(f"ingesting {path} into {directory}"))
                ingest([source], directory, spec, listen)
    return open_shards(directory)


def open_like(path: str | Path, other: Dataset) -> Dataset:
    """Open data that are to be read as others were: the columns of a table become the same features."""
    spec = reading_spec()
    if other.encoding is not None:
        spec = replace(spec, bias=other.bias, reading=spec.reading.encoded(other.encoding))
    return open_dataset(path, spec, given=())


def as_they_are(spec: IngestSpec) -> IngestSpec:
    """Return the spec with which columns of tables are features as they are."""
    return replace(spec, reading=replace(spec.reading, table=None, encoding=None))


def _to_encode(path: str, spec: IngestSpec) -> bool:
    """Tell whether Parquet files have columns that are to be encoded: not if they hold lists."""
    if spec.reading.table is None and spec.reading.encoding is None:
        return False
    from pipeline.data.reading.choose import open_sources  # noqa: PLC0415 - Arrow's readers, slow to import

    return any(not source.layout.has_lists for source in open_sources([path], spec.options))  # type: ignore[attr-defined]


@contextmanager
def _alone(what: str, listen: Listener) -> Iterator[None]:
    """Be the only one on this machine that puts this into the cache; whoever comes later waits, and finds it there."""
    folder = cache_directory()
    problem = "cannot be used as cache ({}); name another folder in SVMSIEVE_CACHE"
    with one_line(lambda reason: DataError(problem.format(reason), path=str(folder))):
        locks = private_folder(private_folder(folder) / "locks")
        with waiting_for(locks / what, busy=lambda: listen(Note(f"waiting for another svmsieve that makes {what}"))):
            yield


def refuse_other_formats(path: str, spec: IngestSpec) -> None:
    """Refuse a directory that is to be read as something else than Parquet."""
    if is_folder(path) and spec.reading.format not in AS_PARQUET:
        kind = spec.reading.format
        raise DataError(f"a directory is read as Parquet, not as {kind}; name its files, or DIR/*.{kind}", path=path)


def _is_file(path: str) -> bool:
    status = None if is_url(path) else status_of(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def is_shards(path: str) -> bool:
    """Tell a shard directory, also one behind a URL whose copy did not finish: opening it says so."""
    if is_url(path) and (path.endswith(FILE_SUFFIXES) or has_magic(path)):
        return False
    place = located(path)
    if isinstance(place, Path):
        return _is_file(str(place / MANIFEST))
    return place.has(MANIFEST) or any(is_shard_name(name) for name in place.sizes())


def _reading(spec: IngestSpec, entry: RegistryEntry) -> dict[str, object]:
    """Return how the registry says this file is read, as far as the user has not."""
    reading: dict[str, object] = {"format": entry.format} if spec.reading.format == "auto" else {}
    if spec.reading.encoding is None:
        reading["table"] = None  # what the registry says of these features is said of them as they are
    if entry.columns:
        reading |= {"columns": entry.columns, "label_column": entry.label_column}
    return reading


def _key(source: Input | Source, spec: IngestSpec) -> str:
    """Name a cache directory after the files, their size and time of change, and how they are read."""
    files = expand(source.path) if isinstance(source, Input) else []
    state = [[f, size_of(f), 0 if is_url(f) else Path(f).stat().st_mtime_ns] for f in map(_absolute, files)]
    reading = dict(source.reading) if isinstance(source, Input) else source.path
    learnt = None if spec.reading.encoding is None else spec.reading.encoding.digest
    plain = asdict(replace(spec, reading=replace(spec.reading, encoding=None)))
    text = json.dumps([reading, state, plain, learnt], sort_keys=True, default=str)
    name = last_name(source.path).split(".")[0].encode("utf-8", "replace").decode()  # names need not be text
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _absolute(path: str) -> str:
    return path if is_url(path) else str(Path(path).absolute())
