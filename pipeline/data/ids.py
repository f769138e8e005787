"""The id columns of what a user names as data: of files that have columns, or of shards that have kept some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.data.dataset import Dataset, open_shards
from pipeline.data.ingest.ingest import IngestSpec, Input
from pipeline.data.inputs import is_shards, resolve
from pipeline.errors import DataError, DatasetError
from pipeline.events import Listener

if TYPE_CHECKING:
    from pipeline.data.reading.ids import IdColumns


class ShardIds:
    """Ids that a data set of shards has kept, from its first row on; to be taken as ``IdColumns`` are."""

    def __init__(self, data: Dataset) -> None:
        self.data, self.names, self.path = data, list(data.ids), data.path
        self.schema = pa.schema([(name, pa.string()) for name in data.ids])
        self._shards = self._read()
        self._left = self.schema.empty_table()

    def take(self, rows: int) -> pa.Table:
        """Return the next rows."""
        while self._left.num_rows < rows:
            found = next(self._shards, None)
            if found is None:
                raise self._changed()
            self._left = pa.concat_tables([self._left, found])
        taken, self._left = self._left.slice(0, rows), self._left.slice(rows)
        return taken

    def finish(self) -> None:
        """Raise DataError if there are rows that nobody took: then those taken may be of others than was thought."""
        if self._left.num_rows or next(self._shards, None) is not None:
            raise self._changed()

    def _changed(self) -> DataError:
        return DataError("has other rows now than it had a moment ago; run again", path=self.path)

    def _read(self) -> Iterator[pa.Table]:
        for shard in self.data.shards:
            ids, where = shard.load().ids, getattr(shard, "path", self.path)
            try:
                if ids is None:
                    raise pa.ArrowInvalid("it has none")
                ids.validate(full=True)
                yield pa.table([ids.field(name) for name in self.names], schema=self.schema)
            except (pa.ArrowException, LookupError) as error:
                raise DatasetError(f"{where}: the ids of the shard are damaged ({error}); ingest it again") from error


def with_ids_of(data: Dataset, names: Sequence[str]) -> Dataset:
    """Return a data set of which the ids ``names`` are wanted and no others; without names, all that it has."""
    for k, name in enumerate(names):
        if name not in data.ids:
            has = f"keeps the ids {', '.join(data.ids)}" if data.ids else "keeps no ids"
            cure = f"name the files instead, or ingest them again with --id {name}"
            raise DataError(f"is a shard directory, which {has}, and no column '{name}'; {cure}", path=data.path)
        if name in names[:k]:
            raise DataError(f"--id {name} stands twice; leave one out", path=data.path)
    return replace(data, ids=tuple(names) or data.ids)


def open_ids(
    path: str, spec: IngestSpec, names: Sequence[str], usual: Sequence[str], listen: Listener
) -> IdColumns | ShardIds | None:
    """Return the columns ``names`` of DATA, in the order of its rows; None if there are none.

    Where no names are given, the ``usual`` ones of the training data count, as far as DATA have them, or those that
    shards have kept.
    """
    if is_shards(path):
        wanted = with_ids_of(open_shards(path), names)
        return ShardIds(wanted) if wanted.ids else None
    if not (names or usual):
        return None
    from pipeline.data.reading.ids import IdColumns, usual_ids  # noqa: PLC0415 - slow to import: Arrow's readers

    found, spec = resolve(path, spec, listen)
    sources = found.open(spec.options) if isinstance(found, Input) else [found]
    there = names or usual_ids(sources, usual, path, listen)
    return IdColumns(sources, there, path) if there else None
