"""The id columns of what a user names as data: of files that have columns, of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.data.ingest.ingest import IngestSpec, Input
from pipeline.data.inputs import is_shards, resolve
from pipeline.errors import DataError
from pipeline.events import Listener, silent

if TYPE_CHECKING:
    from pipeline.data.reading.ids import IdColumns


def refuse_ids_of_shards(path: str, names: Sequence[str]) -> None:
    """Raise DataError if ids of a shard directory are asked for: it keeps features, labels and weights only."""
    if names and is_shards(path):
        raise DataError(f"is a shard directory, which keeps no column '{names[0]}'; name the files instead", path=path)


def open_ids(
    path: str, spec: IngestSpec, names: Sequence[str], usual: Sequence[str] = (), listen: Listener = silent
) -> IdColumns | None:
    """Return the columns ``names`` of DATA, in the order of its rows; None if there are none.

    Where no names are given, the ``usual`` ones of the training data count, as far as DATA have them.
    """
    refuse_ids_of_shards(path, names)
    if not (names or usual) or is_shards(path):
        return None
    from pipeline.data.reading.ids import IdColumns, usual_ids  # noqa: PLC0415 - slow to import: Arrow's readers

    found, spec = resolve(path, spec, listen)
    sources = found.open(spec.options) if isinstance(found, Input) else [found]
    wanted = names or usual_ids(sources, usual, path, listen)
    return IdColumns(sources, wanted, path) if wanted else None
