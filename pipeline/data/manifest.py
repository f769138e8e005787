"""The manifest of a shard directory: what is in it, how it was made, and how to tell that it is whole."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.data.digest import fingerprint
from pipeline.data.labels import LabelMap
from pipeline.data.shard import ShardInfo, number_of
from pipeline.errors import DatasetError
from pipeline.files import write_json

MANIFEST = "manifest.json"
FORMAT, VERSION = "svmsieve-shards", 1


@dataclass(frozen=True)
class SourceInfo:
    """A file that was ingested."""

    name: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class Manifest:
    """A data set of shards. ``features`` counts the bias column, which is the last one; ``bias`` 0 means none.

    ``index_base`` is what the indices of its svmlight files count from; None where there was no such file.
    """

    features: int
    labels: LabelMap
    shards: tuple[ShardInfo, ...]
    sources: tuple[SourceInfo, ...] = ()
    bias: float = 0.0
    index_base: int | None = None
    columns: tuple[str, ...] | None = None
    created_by: str = "svmsieve"

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(shard.rows for shard in self.shards)

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return sum(shard.nnz for shard in self.shards)

    @property
    def positives(self) -> int:
        """Number of rows with label +1."""
        return sum(shard.positives for shard in self.shards)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the rows, whatever shards they are in."""
        return fingerprint([(shard.digest, shard.rows) for shard in self.shards], self.features)

    @property
    def next_number(self) -> int:
        """The number of the next shard: above all those there are."""
        return 1 + max((number_of(shard.name) for shard in self.shards), default=-1)

    def to_json(self) -> dict[str, object]:
        """Return the content of ``manifest.json``."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "rows": self.rows,
            "features": self.features,
            "nnz": self.nnz,
            "bias": self.bias,
            "index_base": self.index_base,
            "label_map": self.labels.to_json(),
            "label_counts": {"-1": self.rows - self.positives, "+1": self.positives},
            "fingerprint": self.fingerprint,
            "columns": None if self.columns is None else list(self.columns),
            "sources": [vars(source) for source in self.sources],
            "shards": [shard.to_json() for shard in self.shards],
            "created_by": self.created_by,
        }

    @classmethod
    def from_json(cls, item: dict) -> Manifest:
        """Read the content of ``manifest.json``."""
        return cls(
            features=int(item["features"]),
            labels=LabelMap.from_json(item["label_map"]),
            shards=tuple(ShardInfo.from_json(shard) for shard in item["shards"]),
            sources=tuple(SourceInfo(**source) for source in item["sources"]),
            bias=float(item["bias"]),
            index_base=None if item["index_base"] is None else int(item["index_base"]),
            columns=None if item["columns"] is None else tuple(item["columns"]),
            created_by=item["created_by"],
        )

    def extended(self, more: Manifest) -> Manifest:
        """Return this manifest with the shards and sources of ``more`` after its own."""
        return replace(more, shards=self.shards + more.shards, sources=self.sources + more.sources)


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the content of the manifest's file."""
    return (json.dumps(manifest.to_json(), indent=1) + "\n").encode()


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest under a temporary name, then rename it: the directory is finished from then on."""
    write_json(directory / MANIFEST, manifest.to_json())


def read_manifest(directory: Path) -> Manifest:
    """Read and check a manifest, or say in one line why the directory is not a finished data set."""
    path = directory / MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        problem = "no manifest.json: not a shard directory, or its ingest did not finish; run svmsieve ingest again"
        raise DatasetError(f"{directory}: {problem}") from error
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    return parse_manifest(content, str(path))


def parse_manifest(content: bytes, path: str) -> Manifest:
    """Return the manifest that a file's content is, checked, or say in one line what is wrong with it."""
    try:
        item = json.loads(content.decode("utf-8"))
        if item.get("format") != FORMAT:
            raise DatasetError(f"{path}: not a manifest of svmsieve shards; ingest the data first")
        if item.get("version") != VERSION:
            raise DatasetError(f"{path}: version {item.get('version')}, but this svmsieve reads version {VERSION}")
        manifest = Manifest.from_json(item)
        derived = manifest.to_json()
        if any(item[key] != derived[key] for key in ("rows", "nnz", "label_counts", "fingerprint")):
            raise DatasetError(f"{path}: the manifest contradicts itself (it was edited or cut); ingest the data again")
    except DatasetError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = f"{type(error).__name__} {error}"
        raise DatasetError(f"{path}: the manifest is damaged ({reason}); ingest the data again") from error
    return manifest
