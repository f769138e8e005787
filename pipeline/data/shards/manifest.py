"""The manifest of a shard directory: what is in it, how it was made, and how to tell that it is whole."""

from __future__ import annotations

import json
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.data.reading.block import LARGEST_FEATURES
from pipeline.data.reading.labels import MISSING, MOST_CLASSES, LabelMap, label_text
from pipeline.data.reading.tidy import LARGEST_NORM
from pipeline.data.shards.digest import Lanes, fingerprint, join_digests
from pipeline.data.shards.shard import LARGEST_NUMBER, ShardInfo, number_of
from pipeline.data.shards.strict import (
    ANY,
    FLAG,
    LARGEST,
    OBJECT,
    TEXT,
    UNICODE,
    Form,
    as_json,
    fitting,
    list_of,
    loads,
    number_between,
    one_among,
    whole_between,
)
from pipeline.dataclass import dataclass
from pipeline.errors import DatasetError
from pipeline.files import write_whole

if TYPE_CHECKING:
    from pipeline.data.tables.encoding import Encoding

MANIFEST = "manifest.json"
FORMAT = "svmsieve-shards"
SIGNS, CLASSES, GROUPS, TABLE, IDS = 1, 2, 3, 4, 5  # versions: labels are -1 and +1; or codes of three classes or more;
# rows have groups; features were made of a table's columns; rows have ids


@dataclass(frozen=True)
class SourceInfo:
    """A file that was ingested."""

    name: str
    bytes: int
    rows: int

    def to_json(self) -> dict[str, object]:
        """Return the form kept in the manifest."""
        return {"name": self.name, "bytes": self.bytes, "rows": self.rows}

    @cached_property
    def line(self) -> str:
        """The line of the manifest."""
        return f"  {json.dumps(self.to_json())}"


@dataclass(frozen=True)
class Manifest:
    """A data set of shards. ``features`` counts the bias column, which is the last one; ``bias`` 0 means none.

    ``index_base`` is what the indices of its svmlight files count from; None where there was no such file. ``group`` is
    the column that rows have their groups from, if they have any; ``ids`` are the columns that tell rows apart for the
    user. Shards with numbers below ``used`` may have been there before.
    """

    features: int
    labels: LabelMap
    shards: tuple[ShardInfo, ...]
    sources: tuple[SourceInfo, ...] = ()
    bias: float = 0.0
    index_base: int | None = None
    columns: tuple[str, ...] | None = None
    group: str | None = None
    encoding: Encoding | None = None
    ids: tuple[str, ...] = ()
    created_by: str = "svmsieve"
    used: int = field(default=0, compare=False)

    @cached_property
    def rows(self) -> int:
        """Number of rows."""
        return sum(shard.rows for shard in self.shards)

    @cached_property
    def nnz(self) -> int:
        """Number of stored values."""
        return sum(shard.nnz for shard in self.shards)

    @cached_property
    def positives(self) -> int:
        """Number of rows with label +1."""
        return sum(shard.positives for shard in self.shards)

    @cached_property
    def class_counts(self) -> tuple[int, ...]:
        """Number of rows of each class; empty where labels are signs."""
        return tuple(map(sum, zip(*(shard.counts for shard in self.shards), strict=True)))

    @cached_property
    def lanes(self) -> Lanes:
        """The digest of all rows."""
        return join_digests([(shard.digest, shard.rows) for shard in self.shards])

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the rows, whatever shards they are in."""
        return fingerprint([(self.lanes, self.rows)], self.features)

    @cached_property
    def next_number(self) -> int:
        """The number of the next shard: above all those there are, and were."""
        return max(self.used, *(number_of(shard.name) + 1 for shard in self.shards))

    @property
    def summary(self) -> dict[str, object]:
        """What ``manifest.json`` says of the whole and what the shards say, too: both must agree."""
        return {
            "rows": self.rows,
            "nnz": self.nnz,
            "label_counts": self.label_counts,
            "fingerprint": self.fingerprint,
        }

    @property
    def label_counts(self) -> dict[str, int]:
        """Number of rows by class, or by sign."""
        if self.labels.classes:
            return dict(zip(self.labels.classes, self.class_counts, strict=True))
        return {"-1": self.rows - self.positives, "+1": self.positives}

    def to_json(self) -> dict[str, object]:
        """Return the content of ``manifest.json``."""
        sources, shards = ([each.to_json() for each in entries] for entries in (self.sources, self.shards))
        return {**self._head(), "sources": sources, "shards": shards}

    def _head(self) -> dict[str, object]:
        classes = list(self.labels.classes)
        return {
            "format": FORMAT,
            "version": self._version,
            **self.summary,
            "features": self.features,
            "bias": self.bias,
            "index_base": self.index_base,
            **({"classes": classes} if classes else {"label_map": self.labels.to_json()}),
            "columns": None if self.columns is None else list(self.columns),
            **({} if self.group is None else {"group": self.group}),
            **({} if self.encoding is None else {"table": _stored(self.encoding)}),
            **({"ids": list(self.ids)} if self.ids else {}),
            "created_by": self.created_by,
            "next_number": self.next_number,
        }

    @property
    def _version(self) -> int:
        """The lowest version that can say all of this."""
        if self.ids or self.encoding is not None:
            return IDS if self.ids else TABLE
        return GROUPS if self.group is not None else CLASSES if self.labels.classes else SIGNS

    def to_bytes(self) -> bytes:
        """Return ``manifest.json``: a line a shard, which is made once, so that an append costs only its own."""
        parts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in self._head().items()]
        for key, entries in (("sources", self.sources), ("shards", self.shards)):
            lines = ",\n".join(entry.line for entry in entries)
            parts.append(f' "{key}": [\n{lines}\n ]')
        return ("{\n" + ",\n".join(parts) + "\n}\n").encode()

    @classmethod
    def from_json(cls, item: object) -> Manifest:
        """Read the content of ``manifest.json``; ValueError says which value cannot be."""
        head = fitting({"next_number": 0} | item if type(item) is dict else item, _HEAD, more=True)
        version = head.get("version")
        grouped = version == GROUPS or (version in (TABLE, IDS) and "group" in head)
        group = fitting(head, _GROUPS, more=True)["group"] if grouped else None
        codes = version == CLASSES or (version in (GROUPS, TABLE, IDS) and "classes" in head)
        encoding = _encoding(head) if version == TABLE or (version == IDS and "table" in head) else None
        ids = fitting(head, _IDS, more=True)["ids"] if version == IDS else []
        if len(set(ids)) < len(ids):
            raise ValueError("ids has a name twice")
        labels = _classes(head) if codes else _signs(head)
        if len(set(head["columns"] or ())) < len(head["columns"] or ()):
            raise ValueError("columns has a name twice")
        if head["features"] < (2 if head["bias"] else 1) or len(head["columns"] or ()) > head["features"]:
            raise ValueError(f"features is {head['features']}, fewer than the columns and the bias need")
        shards = [ShardInfo.from_json(s, f"shards[{k}]", len(labels.classes)) for k, s in enumerate(head["shards"])]
        sources = (fitting(each, _SOURCE, f"sources[{k}]") for k, each in enumerate(head["sources"]))
        return cls(
            features=head["features"],
            labels=labels,
            shards=_distinct(shards),
            sources=tuple(SourceInfo(**source) for source in sources),
            bias=float(head["bias"]),
            index_base=head["index_base"],
            columns=None if head["columns"] is None else tuple(head["columns"]),
            group=group,
            encoding=encoding,
            ids=tuple(ids),
            created_by=head["created_by"],
            used=head["next_number"],
        )

    def extended(self, more: Manifest) -> Manifest:
        """Return this manifest with the shards and sources of ``more`` after its own; what is summed up stays so."""
        shards, sources = self.shards + more.shards, self.sources + more.sources
        grown = replace(more, shards=shards, sources=sources, used=max(self.next_number, more.next_number))
        known = {
            "rows": self.rows + more.rows,
            "nnz": self.nnz + more.nnz,
            "positives": self.positives + more.positives,
            "class_counts": tuple(map(sum, zip(self.class_counts, more.class_counts, strict=True))),
            "next_number": grown.used,
        }
        grown.__dict__.update(known, lanes=join_digests([(self.lanes, self.rows), (more.lanes, more.rows)]))
        return grown


_HEAD: Form = {
    "features": whole_between(1, LARGEST_FEATURES),
    "bias": number_between(-LARGEST_NORM, LARGEST_NORM),
    "index_base": one_among(0, 1, None),
    "columns": list_of(UNICODE, or_none=True),
    "sources": list_of(ANY),
    "shards": list_of(ANY, filled=True),
    "created_by": TEXT,
    "next_number": whole_between(0, LARGEST_NUMBER),  # later than the first manifests
    "rows": whole_between(1, LARGEST),
    "nnz": whole_between(0, LARGEST),
    "label_counts": OBJECT,
    "fingerprint": TEXT,
}
_SIDE = list_of(UNICODE, filled=True)
_SIGNS: Form = {"label_map": OBJECT}
_LABELS: Form = {"-1": _SIDE, "+1": _SIDE, "one_against_rest": FLAG}
_CLASSES: Form = {"classes": _SIDE}
_GROUPS: Form = {"group": UNICODE}
_IDS: Form = {"ids": list_of(UNICODE, filled=True)}
_SOURCE: Form = {"name": TEXT, "bytes": whole_between(0, LARGEST), "rows": whole_between(0, LARGEST)}


def _signs(head: dict[str, object]) -> LabelMap:
    """Return the map of labels to signs that a manifest of version 1 has."""
    labels = fitting(fitting(head, _SIGNS, more=True)["label_map"], _LABELS, "label_map")
    if set(labels["-1"]) & set(labels["+1"]):
        raise ValueError("label_map has a label on both sides")
    return LabelMap.from_json(labels)


def _classes(head: dict[str, object]) -> LabelMap:
    """Return the classes that a manifest of version 2 has."""
    names = fitting(head, _CLASSES, more=True)["classes"]
    if not 3 <= len(names) <= MOST_CLASSES:
        raise ValueError(f"classes has {len(names):,} names, not from 3 to {MOST_CLASSES:,}")
    spelled = set(map(label_text, names))
    if len(spelled) < len(names):
        raise ValueError("classes has a name twice")
    if spelled.intersection(MISSING):
        raise ValueError("classes has a name that is no label")
    return LabelMap((), (), classes=tuple(names))


def _stored(encoding: Encoding) -> dict[str, object]:
    from pipeline.data.tables.stored import to_json  # noqa: PLC0415 - Arrow's compute, which only tables need

    return to_json(encoding)


def _encoding(head: dict[str, Any]) -> Encoding:
    """Return what a manifest of version 4 says of its table."""
    from pipeline.data.tables.stored import from_json  # noqa: PLC0415 - as above

    found = from_json(fitting(head, {"table": OBJECT}, more=True)["table"])
    own = head["features"] - (1 if head["bias"] else 0)
    if found.n_features != own:
        raise ValueError(f"table makes {found.n_features:,} features, and there are {own:,}")
    return found


def _distinct(shards: list[ShardInfo]) -> tuple[ShardInfo, ...]:
    """Return the shards, if no two of different content have the same name (behind a URL, the same may stand twice)."""
    seen: dict[str, str] = {}
    for shard in shards:
        if seen.setdefault(shard.name, shard.sha256) != shard.sha256:
            raise ValueError(f"two shards are called {shard.name}")
    return tuple(shards)


# The last contents that were read or written: an append, which has one before and one after, reads no line anew.
_checked: dict[bytes, Manifest] = {}
_KEPT = 2


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest under a temporary name, then rename it: the directory is finished from then on."""
    content = manifest.to_bytes()
    write_whole(directory / MANIFEST, content)
    _keep(content, manifest)


def _keep(content: bytes, manifest: Manifest) -> None:
    while len(_checked) >= _KEPT:
        _checked.pop(next(iter(_checked)), None)
    _checked[content] = manifest


def read_manifest(directory: Path) -> Manifest:
    """Read and check a manifest, or say in one line why the directory is not a finished data set."""
    path = directory / MANIFEST
    try:
        if path.exists() and not path.is_file():
            raise DatasetError(f"{path}: is not a file; run svmsieve ingest again")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        problem = "no manifest.json: not a shard directory, or its ingest did not finish; run svmsieve ingest again"
        raise DatasetError(f"{directory}: {problem}") from error
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    return parse_manifest(content, str(path))


def parse_manifest(content: bytes, path: str) -> Manifest:
    """Return the manifest that a file's content is, checked, or say in one line what is wrong with it."""
    manifest = _checked.get(content)
    if manifest is None:
        try:
            manifest = _parsed(content)
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{path}: {_explained(error)}") from error
        _keep(content, manifest)
    return manifest


class _OtherError(ValueError):
    """What is said as it stands; any other ValueError means damage."""


def _explained(error: Exception) -> str:
    reason = " ".join(str(error).split())
    return reason if isinstance(error, _OtherError) else f"the manifest is damaged ({reason}); ingest the data again"


def _parsed(content: bytes) -> Manifest:
    item = loads(content)
    if type(item) is not dict:
        raise ValueError(f"it is {as_json(item)}, not an object")
    if item.get("format") != FORMAT:
        raise _OtherError("not a manifest of svmsieve shards; ingest the data first")
    if type(item.get("version")) is not int or item["version"] not in range(SIGNS, IDS + 1):
        known = f"versions {SIGNS} to {IDS}"
        raise _OtherError(f"version {as_json(item.get('version'))}, but this svmsieve reads {known}")
    manifest = Manifest.from_json(item)
    if any(item[key] != value for key, value in manifest.summary.items()):
        raise _OtherError("the manifest contradicts itself (it was edited or cut); ingest the data again")
    return manifest
