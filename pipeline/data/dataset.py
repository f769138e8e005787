"""A data set that is ready for passes: where its shards are, and what is known of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pipeline.cores import available_cores
from pipeline.data.classes import ClassShard, OneAgainstRest
from pipeline.data.parallel import in_order
from pipeline.data.reading.labels import LabelMap
from pipeline.data.shards.digest import digest_text
from pipeline.data.shards.manifest import Manifest, read_manifest
from pipeline.data.shards.mapping import GoneError, is_as_written, prove_shard, read_shard, wants_checksums
from pipeline.data.shards.moved import Whereabouts, moved_rows
from pipeline.data.shards.rows import Rows
from pipeline.data.stores.located import located
from pipeline.data.stores.remote import open_remote
from pipeline.dataclass import dataclass
from pipeline.errors import DataError, DatasetError

if TYPE_CHECKING:
    from pipeline.data.tables.encoding import Encoding


class Shard(Protocol):
    """Rows ``first_row`` to ``first_row + n_rows`` of the data set: small enough to send, loaded where it is used.

    ``digest`` is that of its rows, in any data set.
    """

    @property
    def first_row(self) -> int: ...  # noqa: D102
    @property
    def n_rows(self) -> int: ...  # noqa: D102
    @property
    def nnz(self) -> int: ...  # noqa: D102
    @property
    def digest(self) -> str: ...  # noqa: D102
    def load(self) -> Rows:
        """Return the rows."""
        ...


@dataclass(frozen=True)
class MappedShard:
    """A shard file; loading maps it into memory and copies nothing. ``sha256`` "" means that it is not compared."""

    path: str
    first_row: int
    n_rows: int
    nnz: int
    n_features: int
    digest: str
    sha256: str = ""
    classes: int = 0

    def load(self) -> Rows:
        """Return the rows as views of the file, or of the one that took it in since the data set was opened."""
        try:
            rows = read_shard(self.path, self.n_features, self.sha256, classes=self.classes)
        except GoneError as gone:
            return moved_rows(Whereabouts(self.path, self.first_row, self.n_rows, self.digest), self.n_features, gone)
        if (rows.n_rows, rows.nnz) != (self.n_rows, self.nnz):
            problem = f"the shard has {rows.n_rows} rows and {rows.nnz} nonzeros, its manifest says other numbers"
            raise DatasetError(f"{self.path}: {problem}; run again, or ingest the data again")
        return rows


@dataclass(frozen=True)
class Dataset:
    """Rows x_i, labels, costs and norms in shards, in order. Nothing is held in memory but this description.

    ``columns`` names the features but for the bias, where the source had names; ``index_base`` is what the indices of
    svmlight text that went into it count from, if there was any. ``class_counts`` are the rows of each class, where
    there are three or more; ``view`` says that this is one of those against the rest. ``group`` is the column that rows
    have their groups from, if they have any; ``ids`` are the columns kept to tell rows apart; ``encoding`` is what made
    features of a table's columns. ``keeper`` is held for as long as this is: temporary shards go with it.
    """

    path: str
    kind: str
    n_features: int
    labels: LabelMap
    bias: float
    shards: tuple[Shard, ...]
    n_positive: int
    fingerprint: str
    bytes: int
    columns: tuple[str, ...] | None = None
    index_base: int | None = None
    class_counts: tuple[int, ...] = ()
    view: OneAgainstRest | None = None
    group: str | None = None
    encoding: Encoding | None = None
    ids: tuple[str, ...] = ()
    keeper: object = field(default=None, compare=False, repr=False)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of three classes or more, the k-th being that of rows with code k; empty for two classes."""
        return self.labels.classes

    def against_rest(self, k: int, weights: Sequence[float] | None = None) -> Dataset:
        """Return the same rows as two classes: class k is +1, all others -1.

        ``weights``, one a class, multiply the cost of every row of a class.
        """
        if not 0 <= k < len(self.classes):
            raise DataError(f"there is no class {k}; there are {len(self.classes)}, from 0 on", path=self.path)
        if weights is not None and len(weights) != len(self.classes):
            raise DataError(f"{len(weights)} weights for {len(self.classes)} classes; give one each", path=self.path)
        view = OneAgainstRest(k, None if weights is None else tuple(map(float, weights)))
        others = tuple(name for code, name in enumerate(self.classes) if code != k)
        return replace(
            self,
            labels=LabelMap(others, (self.classes[k],), one_against_rest=True),
            shards=tuple(ClassShard(shard, view) for shard in self.shards),
            n_positive=self.class_counts[k],
            fingerprint=view.fingerprint(self.fingerprint),
            class_counts=(),
            view=view,
        )

    def fingerprint_of(self, rows: str) -> str:
        """Return the fingerprint that these data have if that of their rows, as they are stored, is ``rows``."""
        return rows if self.view is None else self.view.fingerprint(rows)

    def expect_two_classes(self, what: str) -> None:
        """Raise DataError if there are three classes or more, for who can do something with two only."""
        if self.classes:
            cure = "ingest the files again with --positive LABEL for one against the rest"
            raise DataError(f"has {len(self.classes):,} classes, and {what} needs two; {cure}", path=self.path)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(shard.n_rows for shard in self.shards)

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return sum(shard.nnz for shard in self.shards)

    @property
    def own_features(self) -> int:
        """Number of features, the bias column left out."""
        return self.n_features - (1 if self.bias else 0)


def open_shards(directory: str | Path, full_check: bool = False) -> Dataset:
    """Open a shard directory or the URL of one; a missing, truncated or altered shard is an error that names it.

    The check is cheap (see ``is_as_written`` and ``open_remote``) unless ``full_check`` asks for every checksum.
    """
    shards: tuple[Shard, ...]
    place = located(str(directory))
    if isinstance(place, Path):
        manifest, shards = open_local(place, full_check)
    else:
        manifest, shards = open_remote(place, full_check)
    return Dataset(
        path=str(place),
        kind="shards",
        n_features=manifest.features,
        labels=manifest.labels,
        bias=manifest.bias,
        shards=shards,
        n_positive=manifest.positives,
        fingerprint=manifest.fingerprint,
        bytes=sum(info.bytes for info in manifest.shards),
        columns=names_of(manifest),
        index_base=manifest.index_base,
        class_counts=manifest.class_counts,
        group=manifest.group,
        encoding=manifest.encoding,
        ids=manifest.ids,
    )


def names_of(manifest: Manifest) -> tuple[str, ...] | None:
    """Return the names of the features but for the bias, if every one has a name."""
    own = manifest.features - (1 if manifest.bias else 0)
    return manifest.columns if manifest.columns is not None and len(manifest.columns) == own else None


def open_local(directory: Path, full_check: bool = False) -> tuple[Manifest, tuple[MappedShard, ...]]:
    """Read the manifest of a directory and check its shards; ``full_check`` reads all of them.

    A data set that changes meanwhile (an append merges shards) is opened as it is then.
    """
    manifest = read_manifest(directory)
    while True:
        try:
            return manifest, _checked(directory, manifest, full_check)
        except DatasetError:
            before, manifest = manifest, read_manifest(directory)
            if manifest == before:
                raise


def _checked(directory: Path, manifest: Manifest, full_check: bool) -> tuple[MappedShard, ...]:
    doubted = [info for info in manifest.shards if not is_as_written(directory, info) or full_check]
    shards, first, compared = [], 0, wants_checksums()
    for info in manifest.shards:
        place = str(directory / info.name)
        sizes = (first, info.rows, info.nnz, manifest.features)
        sha256 = info.sha256 if compared else ""
        shards.append(MappedShard(place, *sizes, digest_text(info.digest), sha256, len(manifest.labels.classes)))
        first += info.rows
    checks: list[Callable[[], object]] = [partial(prove_shard, directory, info, full_check) for info in doubted]
    with ThreadPoolExecutor(available_cores()) as pool:
        for _ in in_order(
            pool, [*checks, *(shard.load for shard in shards if full_check)], ahead=2 * available_cores()
        ):
            pass
    return tuple(shards)
